"""Real servers for the tests that need them: each started once a run, when first asked for."""

from __future__ import annotations

import atexit
import gc
import os
import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from prove.lab.azurite import Azure, container_at
from prove.lab.gcs import Gcs, gcs_at
from prove.lab.kafka_server import KafkaBroker, unique_name
from prove.lab.s3 import S3, store_at
from prove.servers import Servers
from spark_jobs.config import secrets
from tests.support import run_order
from tests.support.new_lab import NewLab
from tests.support.shared_servers import borrow, lend

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from xdist.workermanage import WorkerController

SERVERS = pytest.StashKey[Servers]()
LENT = pytest.StashKey[dict[str, object]]()
# Tasks of four processes' tests at once, some with two splits, on however many cores.
SPARK_CORES = 6

_FOREIGN_PREFIXES = (
    "SLUICE_CONFIG",
    "SLUICE_HOME",
    "SPARK_",
    "PYSPARK_",
    "DAGSTER_HOME",
    "PYICEBERG_",
    "AWS_",
    "AZURE_",
    "GOOGLE_",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--write-durations` records how long files take, from which the next runs take their order."""
    parser.addoption("--write-durations", action="store_true", help="Record how long each file took.")


def pytest_configure(config: pytest.Config) -> None:
    """Tests see neither the user's Spark, Dagster and AWS set-up nor another Sluice's."""
    if config.getoption("--write-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(run_order.Recorder(run_order.DURATIONS))
    for name in [name for name in os.environ if name.startswith(_FOREIGN_PREFIXES)]:
        del os.environ[name]
    # A script's background job ignores SIGINT. Dagster hands that on to SIGTERM, servers inherit both, and
    # every one of them would have to be killed after its grace.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Servers share the cores with the examples, so slowness says nothing about a strategy or a property.
    slow_is_fine = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    # SLUICE_EXAMPLES=100000 for a night of it.
    examples = int(os.environ.get("SLUICE_EXAMPLES", "50" if "CI" in os.environ else "25"))
    settings.register_profile("sluice", slow_is_fine, derandomize="CI" in os.environ, max_examples=examples)
    settings.load_profile("sluice")

    if hasattr(config, "workerinput") and config.args_source is config.ArgsSource.TESTPATHS:
        number = int(config.workerinput["workerid"].removeprefix("gw"))
        config.args = run_order.files_from(number / config.workerinput["workercount"], config.rootpath)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays, so nothing is to be found in it: a quarter of the collection's time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        atexit.register(gc.unfreeze)  # libraries complain of objects that are there to the end


@pytest.fixture(autouse=True)
def no_secrets_of_other_tests() -> None:
    """What one test resolved as a secret would be masked in the texts another one reads."""
    secrets._remembered.clear()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long begin first, so that no worker is left with one while the others have nothing."""
    run_order.longest_first(items, run_order.read_durations())


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Tell one of pytest-xdist's workers where to ask for servers."""
    stash = node.config.stash
    if LENT not in stash:
        stash[LENT] = lend(_servers(node.config))
    node.workerinput.update(stash[LENT])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop what the run started; a run that is killed takes its servers with it."""
    if SERVERS in config.stash:
        config.stash[SERVERS].stop()


def _servers(config: pytest.Config) -> Servers:
    """Return the run's servers, which are this process's own, or another's if this is a worker."""
    if SERVERS not in config.stash:
        folder = config._tmp_path_factory.mktemp("servers")
        config.stash[SERVERS] = Servers(folder, spark_cores=SPARK_CORES)
    return config.stash[SERVERS]


@pytest.fixture(scope="session")
def servers(pytestconfig: pytest.Config) -> Servers:
    """The servers that all tests of the run share."""
    lent = getattr(pytestconfig, "workerinput", None)
    return _servers(pytestconfig) if lent is None else borrow(lent)


@pytest.fixture(scope="session")
def servers_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the data and logs of servers that tests have for themselves."""
    return tmp_path_factory.mktemp("own-servers")


@pytest.fixture(scope="session")
def kafka(servers: Servers) -> KafkaBroker:
    """The run's broker: a bootstrap string with ``create_topic``, ``produce`` and the like."""
    return KafkaBroker(servers.kafka(), lasts=True)


@pytest.fixture
def topic_name() -> str:
    """A topic name no other test has."""
    return unique_name("topic")


@pytest.fixture
def namespace() -> str:
    """A catalog namespace no other test has."""
    return unique_name("ns").replace("-", "_")


@pytest.fixture(scope="session")
def spark_remote(servers: Servers) -> str:
    """The address of the run's Spark Connect server."""
    return servers.spark()


@pytest.fixture
def new_lab(kafka: KafkaBroker, spark_remote: str, tmp_path: Path) -> NewLab:
    """Makes the test's pipelines, each over a topic of its own."""
    return NewLab(kafka, spark_remote, tmp_path)


@pytest.fixture(scope="session")
def s3_endpoint(servers: Servers) -> str:
    """The address of the run's object store."""
    return servers.s3()


@pytest.fixture
def s3(s3_endpoint: str) -> S3:
    """The object store with a bucket of the test's own."""
    return store_at(s3_endpoint)


@pytest.fixture
def azure(servers: Servers) -> Azure:
    """Azure's storage by its emulator, with a container of the test's own."""
    return container_at(servers.azurite())


@pytest.fixture
def gcs(servers: Servers) -> Gcs:
    """Google Cloud Storage by its emulator, with a bucket of the test's own."""
    return gcs_at(servers.gcs())


@pytest.fixture(scope="session")
def rest_catalog_properties(servers: Servers) -> dict[str, str]:
    """PyIceberg's properties for Iceberg's reference REST catalog over S3."""
    return servers.catalog("rest")


@pytest.fixture(scope="session")
def nessie_catalog_properties(servers: Servers) -> dict[str, str]:
    """PyIceberg's properties for Nessie over S3."""
    return servers.catalog("nessie")


@pytest.fixture(scope="session")
def glue_catalog_properties(s3_endpoint: str) -> dict[str, str]:
    """PyIceberg's properties for Glue's API, by moto made to compare versions, over S3."""
    return store_at(s3_endpoint).glue_properties


@pytest.fixture(scope="session")
def postgres_catalog_properties(servers: Servers) -> dict[str, str]:
    """PyIceberg's properties for a catalog in Postgres, its tables on this machine's disk."""
    return servers.catalog("postgres")


@pytest.fixture(scope="session")
def registry(servers: Servers) -> str:
    """The address of the run's schema registry, up to its Confluent API; subjects are shared by all tests."""
    return servers.registry()


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
