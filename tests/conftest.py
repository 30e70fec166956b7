"""Real servers for the tests that need them: each started once per run, when first asked for."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from prove.lab.kafka_server import KafkaBroker, start_test_kafka, unique_name
from prove.lab.nessie import start_nessie
from prove.lab.new_lab import NewLab
from prove.lab.rest_catalog import start_rest_catalog
from prove.lab.s3 import S3, S3Server, start_s3
from prove.lab.server_folder import ServerFolder
from servers.process import free_ports
from servers.spark_connect import SparkConnectSettings, start_spark_connect
from spark_jobs.config import secrets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FOREIGN_PREFIXES = (
    "SLUICE_CONFIG",
    "SLUICE_HOME",
    "SPARK_",
    "PYSPARK_",
    "DAGSTER_HOME",
    "PYICEBERG_",
    "AWS_",
)


def pytest_configure() -> None:
    """Tests see neither the user's Spark, Dagster and AWS set-up nor another Sluice's."""
    for name in [name for name in os.environ if name.startswith(_FOREIGN_PREFIXES)]:
        del os.environ[name]
    # A script's background job ignores SIGINT. Dagster hands that on to SIGTERM, servers inherit both, and
    # every one of them would have to be killed after its grace.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Servers share the cores with the examples, so slowness says nothing about a strategy or a property.
    slow_is_fine = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    examples = 100 if "CI" in os.environ else 25
    settings.register_profile("sluice", slow_is_fine, derandomize="CI" in os.environ, max_examples=examples)
    settings.load_profile("sluice")


@pytest.fixture(autouse=True)
def no_secrets_of_other_tests() -> None:
    """What one test resolved as a secret would be masked in the texts another one reads."""
    secrets._remembered.clear()


@pytest.fixture(scope="session")
def servers_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all servers' data and logs."""
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="session")
def kafka(servers_folder: Path) -> Iterator[KafkaBroker]:
    """The run's broker: a bootstrap string with ``create_topic``, ``produce`` and the like."""
    server = start_test_kafka(ServerFolder(servers_folder, "kafka"))
    yield KafkaBroker(server.bootstrap_servers)
    server.process.stop()


@pytest.fixture
def topic_name() -> str:
    """A topic name no other test has."""
    return unique_name("topic")


@pytest.fixture
def namespace() -> str:
    """A catalog namespace no other test has."""
    return unique_name("ns").replace("-", "_")


@pytest.fixture(scope="session")
def spark_remote(servers_folder: Path) -> Iterator[str]:
    """The address of the run's Spark Connect server."""
    folder = ServerFolder(servers_folder, "spark-connect")
    server = start_spark_connect(
        SparkConnectSettings(
            home=folder.home,
            run_folder=folder.run_folder,
            log_path=folder.log_path,
            port=free_ports(1)[0],
            cores=2,
            jar_sets=("spark", "spark-s3"),
            dies_with_parent=True,
        )
    )
    yield server.remote
    server.process.stop()


@pytest.fixture
def new_lab(kafka: KafkaBroker, spark_remote: str, tmp_path: Path) -> NewLab:
    """Makes the test's pipelines, each over a topic of its own."""
    return NewLab(kafka, spark_remote, tmp_path)


@pytest.fixture(scope="session")
def s3_server(servers_folder: Path) -> Iterator[S3Server]:
    """The run's object store."""
    server = start_s3(ServerFolder(servers_folder, "s3"))
    yield server
    server.process.stop()


@pytest.fixture
def s3(s3_server: S3Server) -> S3:
    """The object store with a bucket of the test's own."""
    return s3_server.new_bucket()


@pytest.fixture(scope="session")
def rest_catalog_properties(servers_folder: Path, s3_server: S3Server) -> Iterator[dict[str, str]]:
    """PyIceberg's properties for Iceberg's reference REST catalog over S3."""
    server = start_rest_catalog(ServerFolder(servers_folder, "rest-catalog"), s3_server.new_bucket())
    yield server.properties
    server.process.stop()


@pytest.fixture(scope="session")
def nessie_catalog_properties(servers_folder: Path, s3_server: S3Server) -> Iterator[dict[str, str]]:
    """PyIceberg's properties for Nessie over S3."""
    server = start_nessie(ServerFolder(servers_folder, "nessie"), s3_server.new_bucket())
    yield server.properties
    server.process.stop()


@pytest.fixture
def sqlite_catalog_properties(tmp_path: Path) -> dict[str, str]:
    """PyIceberg's properties for the embedded catalog in a folder of the test's own."""
    lake = tmp_path / "lake"
    lake.mkdir()
    return {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path / 'catalog.db'}",
        "warehouse": lake.as_uri(),
    }
