"""Spark Connect server on loopback from PySpark's jars: warm, local, without UI, with a token."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from secrets import token_urlsafe

from servers.environment import FRUGAL_OPTIONS, LOG_SETTINGS, clean_environment, write_spark_defaults
from servers.jars import jar_paths
from servers.process import ServerFolder, ServerProcess, is_listening
from spark_jobs import WITHIN
from spark_jobs.config.redaction import SPARK_REDACTION
from spark_jobs.protocol.errors import fault

SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
TASK_ATTEMPTS = 4  # `local[n]` alone never tries a failed task again

_START_TIMEOUT_SECONDS = 120.0
_STARTED = b"Spark Connect server started at: "
# Of tasks: memory given back to the system and taken again costs a tenth of their CPU; what librdkafka
# allocates in one thread and frees in another fills 90 MiB of arenas.
_MEMORY = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"}


@dataclass(frozen=True, slots=True)
class SparkConnectSettings:
    """Settings of a Spark Connect server; ``conf`` overrides the defaults except the ``token``.

    Who comes without the ``token`` is turned away: other users of the machine reach its loopback as well, and
    a session runs code in our name.
    """

    folder: ServerFolder
    home: Path
    port: int
    cores: int
    conf: Mapping[str, str] = field(default_factory=dict)
    jar_sets: tuple[str, ...] = ("spark",)
    token: str = field(default_factory=token_urlsafe, repr=False)

    @property
    def remote(self) -> str:
        """Return its address with the token, which PySpark sends without TLS only to this host name."""
        return f"sc://localhost:{self.port}/;token={self.token}"


@dataclass(frozen=True, slots=True)
class SparkConnectServer:
    """A running server; ``remote`` is its ``sc://`` address with a secret."""

    remote: str
    process: ServerProcess


def start_spark_connect(settings: SparkConnectSettings) -> SparkConnectServer:
    """Start the server and wait until it accepts connections.

    Raises ``ConfigError`` (``port-taken``), and ``RetryableError`` (``server-start``) when it ends instead,
    also because another program took the port in between.
    """
    if is_listening(settings.port):
        raise fault("port-taken.spark", port=settings.port)
    log_path = settings.folder.log_path
    said_before = log_path.stat().st_size if log_path.exists() else 0
    spark_home = _spark_home()
    file = write_conf(settings)
    command = [str(spark_home / "bin" / "spark-submit"), "--class", SERVER_CLASS, "spark-internal"]
    environment = (
        _MEMORY
        | clean_environment()
        | {
            "SPARK_HOME": str(spark_home),
            "SPARK_CONF_DIR": str(file.parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(_create(settings.home / "local")),
        }
    )
    process = ServerProcess(settings.folder, command, environment, settings.home)
    process.wait_until(lambda: _has_started(log_path, said_before), _START_TIMEOUT_SECONDS)
    return SparkConnectServer(settings.remote, process)


def _spark_home() -> Path:
    """Return PySpark's folder without importing it."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pyspark")
    return Path(spec.origin).parent


def _has_started(log_path: Path, said_before: int) -> bool:
    """True if the server's log shows its start; the port may belong to another process."""
    with log_path.open("rb") as log:
        log.seek(said_before)
        return _STARTED in log.read()


def write_conf(settings: SparkConnectSettings) -> Path:
    """Write the configuration to a file that only this user can read, instead of a command line."""
    class_path = os.pathsep.join(str(path) for path in jar_paths(*settings.jar_sets))
    java_options = (
        f"-Dlog4j2.configurationFile={LOG_SETTINGS} -Dderby.system.home={settings.home} "
        f"-Djava.io.tmpdir={_create(settings.home / 'tmp')} -XX:+ExitOnOutOfMemoryError "
        f"{' '.join(FRUGAL_OPTIONS)}"
    )
    conf = {
        "spark.master": f"local[{settings.cores},{TASK_ATTEMPTS}]",
        "spark.app.name": "sluice",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.python.daemon.module": f"{WITHIN}spark_jobs.worker_daemon",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(settings.port),
        # One that was closed for idleness can never be opened again under its id: the next one's is another.
        "spark.connect.session.manager.defaultSessionTimeout": "1h",
        "spark.driver.extraClassPath": class_path,
        "spark.driver.extraJavaOptions": java_options,
        "spark.sql.warehouse.dir": str(settings.home / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.redaction.regex": SPARK_REDACTION,
        "spark.sql.redaction.options.regex": SPARK_REDACTION,
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        **settings.conf,
        "spark.connect.authenticate.token": settings.token,
    }
    return write_spark_defaults(settings.home / "conf", conf)


def _create(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
