"""Nessie over S3: a REST catalog without snapshot history, which reads null assertions differently."""

from __future__ import annotations

import urllib.request

from prove.lab.rest_catalog import TEST_LOCK, CatalogServer
from prove.lab.s3 import REGION, S3
from servers.environment import FRUGAL_OPTIONS, clean_environment, java_21
from servers.jars import jar_paths
from servers.process import ServerFolder, ServerProcess, free_ports, is_listening


def start_nessie(folder: ServerFolder, s3: S3) -> CatalogServer:
    """Start Nessie with its tables in the bucket and its references in memory."""
    port, management_port = free_ports(2)
    (jar,) = jar_paths("nessie", lock=TEST_LOCK)
    options = [f"-D{name}={value}" for name, value in _settings(s3, port, management_port).items()]
    process = ServerProcess(
        folder,
        [str(java_21() / "bin" / "java"), "-Xmx768m", *FRUGAL_OPTIONS, *options, "-jar", str(jar)],
        clean_environment(java_21()),
    )
    uri = f"http://127.0.0.1:{port}/iceberg"
    process.wait_until(lambda: is_listening(port) and _answers(f"{uri}/v1/config"), 120)
    return CatalogServer({"type": "rest", "uri": uri, **s3.pyiceberg_properties}, process)


def _settings(s3: S3, port: int, management_port: int) -> dict[str, str]:
    options = "nessie.catalog.service.s3.default-options"
    secret = "test-secrets.s3"
    return {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": str(port),
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": str(management_port),
        "quarkus.log.level": "WARN",
        "quarkus.otel.sdk.disabled": "true",
        "nessie.version.store.type": "IN_MEMORY",
        "nessie.catalog.default-warehouse": "lake",
        "nessie.catalog.warehouses.lake.location": f"s3://{s3.bucket}/nessie",
        f"{options}.endpoint": s3.endpoint,
        f"{options}.region": REGION,
        f"{options}.path-style-access": "true",
        f"{options}.request-signing-enabled": "false",
        f"{options}.access-key": f"urn:nessie-secret:quarkus:{secret}",
        f"{secret}.name": s3.access_key,
        f"{secret}.secret": s3.secret_key,
    }


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  (our own)
            return bool(answer.status == 200)
    except OSError:  # URLError, or TimeoutError where the connection was made and the answer took long
        return False
