"""A standalone Spark cluster on loopback: a master, two workers, and a Connect server.

It is somebody else's: its Python has the packages that tasks need, and not Sluice.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pyspark

from servers.environment import FRUGAL_OPTIONS, LOG_SETTINGS, clean_environment
from servers.jars import jar_paths
from servers.process import ServerFolder, ServerProcess, free_ports, is_listening
from servers.spark_connect import SERVER_CLASS

WORKERS = 2
LOOPBACK = "127.0.0.1"
NOTHING_ELSE: Mapping[str, str] = MappingProxyType({})
_SPARK_HOME = Path(pyspark.__file__).parent
_START_SECONDS = 120.0
_JAVA_OPTIONS = " ".join((f"-Dlog4j2.configurationFile={LOG_SETTINGS}", *FRUGAL_OPTIONS))
# Without `site` an interpreter sees no editable install, only the packages it is pointed to.
_PYTHON = """#!/bin/sh
PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{packages}" exec "{python}" -S "$@"
"""


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A running cluster; ``worker_folders`` contain what executors received."""

    remote: str
    python: Path
    worker_folders: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class _Starter:
    """Starts servers in order; the stack stops them in reverse order."""

    root: Path
    environment: dict[str, str]
    stack: ExitStack

    def start(self, name: str, *command: str) -> ServerProcess:
        """Start one of Spark's programs."""
        script, *arguments = command
        folder = ServerFolder(self.root, name)
        process = ServerProcess(folder, [str(_SPARK_HOME / "bin" / script), *arguments], self.environment)
        self.stack.callback(process.stop)
        return process


@contextmanager
def spark_cluster(
    root: Path,
    conf: Mapping[str, str] = NOTHING_ELSE,
    *,
    python: Path | None = None,
    hosts: Sequence[str] = (LOOPBACK,) * WORKERS,
) -> Iterator[SparkCluster]:
    """Start the cluster with its files below ``root`` and stop it; ``conf`` overrides ours.

    ``hosts`` are the workers' addresses. Without ``python`` theirs is one that does not have Sluice.
    """
    master_port, connect_port = free_ports(2)
    master = f"spark://127.0.0.1:{master_port}"
    python = python or _python_without_sluice(root)
    folders = tuple(root / f"spark-worker-{number}" / "work" for number in range(WORKERS))
    with ExitStack() as stack:
        starter = _Starter(root, _environment(root, python), stack)
        address = ("--host", LOOPBACK, "--webui-port", "0")
        process = starter.start(
            "spark-master",
            *("spark-class", "org.apache.spark.deploy.master.Master", *address, "--port", str(master_port)),
        )
        process.wait_until(lambda: is_listening(master_port), _START_SECONDS)
        for number, folder in enumerate(folders):
            address = ("--host", hosts[number], "--webui-port", "0")
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder))
            starter.start(
                f"spark-worker-{number}",
                *("spark-class", "org.apache.spark.deploy.worker.Worker", *address, *size, master),
            )
        settings = {**_connect_conf(connect_port), **conf}
        history = [part for item in settings.items() for part in ("--conf", "=".join(item))]
        process = starter.start(
            "spark-cluster-connect",
            *("spark-submit", "--master", master, "--class", SERVER_CLASS, *history, "spark-internal"),
        )
        process.wait_until(lambda: is_listening(connect_port), _START_SECONDS)
        yield SparkCluster(f"sc://127.0.0.1:{connect_port}", python, folders)


def _python_without_sluice(root: Path) -> Path:
    root.mkdir(parents=True, exist_ok=True)
    python = root / "python"
    python.write_text(_PYTHON.format(packages=sysconfig.get_path("purelib"), python=sys.executable))
    python.chmod(0o755)
    return python


def _environment(root: Path, python: Path) -> dict[str, str]:
    return clean_environment() | {
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "SPARK_HOME": str(_SPARK_HOME),
        "SPARK_CONF_DIR": str(root / "no-conf"),
        "SPARK_LOCAL_DIRS": str(root / "spark-local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "512m",  # the Connect server's too
        "SPARK_DAEMON_JAVA_OPTS": _JAVA_OPTIONS,
    }


def _connect_conf(port: int) -> dict[str, str]:
    """Return the configuration: executors need Iceberg too, for upkeep's tasks."""
    class_path = os.pathsep.join(str(path) for path in jar_paths("spark"))
    return {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraClassPath": class_path,
        "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
        "spark.executor.extraClassPath": class_path,
        "spark.executor.extraJavaOptions": " ".join(FRUGAL_OPTIONS),
        "spark.executor.memory": "512m",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.ui.enabled": "false",
        # No task before all workers are there, so that each gets some.
        "spark.cores.max": str(WORKERS),
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{_START_SECONDS:.0f}s",
    }
