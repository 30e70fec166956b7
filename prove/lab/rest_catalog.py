"""Iceberg's reference REST catalog over S3: fast, and stricter than others."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from prove.lab.s3 import REGION, S3
from servers.environment import FRUGAL_OPTIONS, LOG_SETTINGS, clean_environment, java_home
from servers.jars import jar_paths
from servers.process import ServerFolder, ServerProcess, free_ports, is_listening

TEST_LOCK = Path(__file__).with_name("jars-test.lock")


@dataclass(frozen=True, slots=True)
class CatalogServer:
    """A running REST catalog and PyIceberg's properties for it."""

    properties: dict[str, str]
    process: ServerProcess


def start_rest_catalog(folder: ServerFolder, s3: S3) -> CatalogServer:
    """Start the reference server with its tables in the bucket."""
    (port,) = free_ports(1)
    home = java_home()
    class_path = os.pathsep.join(str(path) for path in jar_paths("rest", lock=TEST_LOCK))
    java = [str(home / "bin" / "java"), "-Xmx512m", *FRUGAL_OPTIONS]
    process = ServerProcess(
        folder,
        [
            *java,
            f"-Dlog4j2.configurationFile={LOG_SETTINGS}",
            "-cp",
            class_path,
            "org.apache.iceberg.rest.RESTCatalogServer",
        ],
        clean_environment(home) | _settings(folder, s3, port),
    )
    process.wait_until(lambda: is_listening(port), 60)
    uri = f"http://127.0.0.1:{port}"
    return CatalogServer({"type": "rest", "uri": uri, **s3.pyiceberg_properties}, process)


def _settings(folder: ServerFolder, s3: S3, port: int) -> dict[str, str]:
    return {
        "CATALOG_REST_PORT": str(port),
        "CATALOG_WAREHOUSE": f"s3://{s3.bucket}/rest",
        "CATALOG_URI": f"jdbc:sqlite:file:{folder.home}/catalog.db",
        "CATALOG_JDBC_SCHEMA__VERSION": "V1",
        "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
        "CATALOG_S3_ENDPOINT": s3.endpoint,
        "CATALOG_S3_PATH__STYLE__ACCESS": "true",
        "CATALOG_S3_ACCESS__KEY__ID": s3.access_key,
        "CATALOG_S3_SECRET__ACCESS__KEY": s3.secret_key,
        "CATALOG_CLIENT_REGION": REGION,
        "AWS_REGION": REGION,
    }
