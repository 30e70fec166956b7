"""Spark sessions per kind of work: warm on a Spark Connect server, or local in this process.

On a Connect server the session id is chosen by us and stable per kind of work: a later process attaches to
the warm session, and can stop what a dead one left running there; nobody else could. So a session is never
stopped here. All pipelines share it, as each session has Python workers of its own (ADR 28); what is to be
stopped is told by its tag. In this process there is one local session, as Spark allows no more.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from resources.spark_shipping import ship_code, ship_python
from servers.code_server import temporary_folder
from servers.environment import LOG_SETTINGS, java_home, write_spark_defaults
from servers.process import ServerFolder, last_line
from spark_jobs.config.redaction import SPARK_REDACTION
from spark_jobs.config.secrets import resolve, scrub
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.connections.endpoints import Endpoints, read_endpoints
from spark_jobs.connections.spark_address import (
    UPKEEP,
    ask_for_remote,
    catalog_conf,
    connect_url,
    know_catalog,
    lake_name,
    no_answer,
    refuse_clear,
    refuse_silence,
)
from spark_jobs.connections.spark_use import use_spark, wait_for_spark
from spark_jobs.lake.catalog_names import spark_catalog_conf
from spark_jobs.protocol.errors import fault
from spark_jobs.spark.environment import isolate_from_user_spark
from spark_jobs.spark.shipped import archive_name, package_zip
from spark_jobs.storage.state_files import secret_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A server forgets a session after an hour without work and refuses its id from then on; we count on.
MAX_FORGOTTEN_SESSIONS = 1000
TASK_ATTEMPTS = 4  # local masters otherwise never retry a task
PARALLELISM = "spark.default.parallelism"
CHECK = "check"
INTERRUPT_SECONDS = 3.0
LOG_NAME = "spark-local"  # of the JVMs of this machine's commands, all in one file
_READING_ICEBERG = frozenset({UPKEEP, CHECK})  # all else leaves Iceberg to PyIceberg

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_sessions: dict[tuple[object, ...], SparkSession] = {}


def spark_parallelism(config: SluiceConfig) -> int:
    """Return the number of tasks to plan for: configured, ``local[n]``'s n, or the processors.

    A Connect client is not told how many cores the cluster behind its server has.
    """
    configured = config.spark.conf.get(PARALLELISM, "")
    master = config.spark.master or ""
    inside = master.partition("[")[2].split(",")[0].rstrip("]")
    numbers = (int(text) for text in (configured, inside) if text.isdigit())
    return next(numbers, os.cpu_count() or 1)


def is_connecting() -> bool:
    """True while a session connects, which may wait for a server that is away or starting."""
    return _lock.locked()


def is_spark_local(config: SluiceConfig) -> bool:
    """True if each run's Spark is local to its process and this machine."""
    if config.spark.is_elsewhere or config.spark.master:
        return (config.spark.master or "").startswith("local")
    return read_endpoints(config.home).spark_remote is None


@dataclass(frozen=True, slots=True)
class SparkSessions:
    """The resource ``spark``: sessions by kind of work, each made by dagster-pyspark's resource.

    Not dagster-pyspark's itself: importing that costs every process that loads the definitions, sensors'
    included, half a second, and the UI would show its settings, credentials among them.
    """

    config: SluiceConfig
    is_logged_apart: bool = True

    def of(self, kind: str) -> WorkSpark:
        """Return Spark for ``kind`` of work; it connects on first use."""
        return WorkSpark(self.config, kind, is_logged_apart=self.is_logged_apart)


@dataclass(frozen=True, slots=True)
class WorkSpark:
    """Spark for one kind of work.

    ``is_logged_apart``: what a JVM of this process prints goes to a file in the state folder. A run of
    Dagster's prints it, as Dagster keeps what a run prints.
    """

    config: SluiceConfig
    kind: str
    is_logged_apart: bool = True

    @property
    def where(self) -> str | None:
        """Return the Spark Connect server's address for messages; None for a local session."""
        command = self.config.spark.remote_command
        return f"the server that {command[0]} told" if command else self.remote

    @property
    def remote(self) -> str | None:
        """Return the Spark Connect server to use: the configured one, else the one Sluice started, else None.

        A configured program is run for it. Raises ``ConfigError`` and ``RetryableError`` as
        ``ask_for_remote``.
        """
        if self.config.spark.remote_command:
            return ask_for_remote(self.config.spark.remote_command)
        if self.config.spark.remote:
            return resolve({"spark.remote": self.config.spark.remote})["spark.remote"]
        if self.config.spark.master:
            return None
        return read_endpoints(self.config.home).spark_remote

    def session(self) -> SparkSession:
        """Return the session, which connects on first use and is the same in later calls.

        Raises ``RetryableError``: the server does not answer. ``ConfigError``: no Java for a local session.
        """
        isolate_from_user_spark()
        with _lock:
            if self._server_of_up is not None:
                use_spark(self.config.home)
                wait_for_spark(self.config.home)
            place = self.config.spark.remote_command or self.remote
            ours = (self.kind, *self._catalog().items())
            key: tuple[object, ...] = (place, self._secret(), *ours) if place else ()
            if key not in _sessions:
                remote = place if isinstance(place, str) else self.remote
                _sessions[key] = self._connect(remote) if remote else self._local()
            return _sessions[key]

    def use(self) -> None:
        """Keep the server of ``up`` awake until this process ends, if this work has that server."""
        if self._server_of_up is not None:
            use_spark(self.config.home)

    @property
    def _server_of_up(self) -> Endpoints | None:
        """Return the endpoints of ``up`` if its Spark server does this work, awake or asleep."""
        configured, found = self.config.spark, read_endpoints(self.config.home)
        return found if found.spark_remote and not (configured.is_elsewhere or configured.master) else None

    def _catalog(self) -> dict[str, str]:
        """Return the catalog settings of this kind of work's session."""
        return catalog_conf(self.config) if self.kind == UPKEEP else {}

    def interrupt(self, tag: str) -> None:
        """Stop operations tagged ``tag``, best effort; correctness never depends on it.

        It does not wait for a silent server, which is told when it answers, if this process still lives.
        """
        if not _is_soon_done(partial(self._interrupt, tag)):
            _logger.warning("Spark has not stopped the work of attempt %s in %.0f s", tag, INTERRUPT_SECONDS)

    def _interrupt(self, tag: str) -> None:
        try:
            if (server := self._server_of_up) and server.spark_asleep:
                return  # it works on nothing
            if self.where or () in _sessions:  # one in this process that nobody made does nothing
                self.session().interruptTag(tag)
        except Exception as error:  # noqa: BLE001  (any failure leaves a zombie, which the commit fences off)
            details = getattr(error, "details", None)  # gRPC's errors tell all they are, over many lines
            why = scrub(str(details() if callable(details) else error))
            _logger.warning("Spark work of attempt %s could not be stopped: %s", tag, " ".join(why.split()))

    def _connect(self, remote: str) -> SparkSession:
        _logger.info("connecting to Spark")
        from pyspark.errors import PySparkException  # noqa: PLC0415  (half a second, never at import)

        if not self.config.spark.insecure:
            refuse_clear(remote)
        refuse_silence(remote)
        # Workers of a session keep what they imported, so other code gets another session.
        code = package_zip(self._code_folder()) if self.config.spark.is_elsewhere else None
        # Upkeep's tasks are Iceberg's own, without Python.
        python = archive_name() if self.config.spark.ship_python and self.kind != UPKEEP else ""
        # Two lakes that attach at once could not tell whose catalog it has.
        lake = lake_name(self.config) if self.kind in _READING_ICEBERG else ()
        work = "|".join((self.kind, *lake, *([code.stem] if code else []), *([python] if python else [])))
        conf = resolve(self.config.spark.conf)
        conf.pop(PARALLELISM, None)  # no session may set it, and each would warn
        for forgotten in range(MAX_FORGOTTEN_SESSIONS):
            url = connect_url(remote, work, forgotten, secret=self._secret())
            session: Any = _attach(url, conf, remote)
            client = session.client
            try:
                session.version  # noqa: B018  (asks the server, which may have forgotten this session)
                is_ours = know_catalog(session, self._catalog())
            except PySparkException as error:
                client.close()
                if "SESSION_CLOSED" not in str(error):
                    raise no_answer(remote, error) from error
                continue
            if not is_ours:
                client.close()
            else:
                _interrupt_briefly(client)
                # Left to the interpreter's end, closing waits for a thread that is gone by then.
                atexit.register(client.close)
                if code:
                    ship_code(session, code, remote)
                if python:
                    ship_python(session, python, remote, self._code_folder())
                return session  # type: ignore[no-any-return]
        raise no_answer(remote, None)

    def _local(self) -> SparkSession:
        os.environ["JAVA_HOME"] = str(java_home())
        conf = _local_conf(self.config)
        if self.kind in _READING_ICEBERG:
            conf = {**_iceberg_conf(self.config), **self._catalog(), **conf}
        is_local = (self.config.spark.master or "local").startswith("local")
        # A cluster's driver may say for hours that it waits for workers; who asked for all is shown all.
        is_quiet = self.is_logged_apart and is_local and not _logger.isEnabledFor(logging.DEBUG)
        is_kept = is_quiet and os.access(self.config.home, os.W_OK)
        log_path = ServerFolder(Path(self.config.home), LOG_NAME).log_path if is_kept else None
        _logger.info("starting Spark in this process%s", f"; its log is {log_path}" if log_path else "")
        _launch(conf, log_path)
        session = _session(conf)
        if not is_local:
            session.sparkContext.addPyFile(str(package_zip(self._code_folder())))
        return session

    def _secret(self) -> bytes:
        """Return the session secret: anyone who knows a session's id can attach to it."""
        given = self.config.spark.session_secret
        if given is not None:
            return resolve({"spark.session_secret": given.get_secret_value()})[
                "spark.session_secret"
            ].encode()
        try:
            return secret_of(Path(self.config.home) / "spark" / "session.secret")
        except OSError as error:
            raise fault("no-session-secret", folder=self.config.home, why=error.strerror) from error

    def _code_folder(self) -> Path:
        """Return the folder for the zip of the job's code; a state folder may be read-only."""
        return temporary_folder(Path(self.config.home))


def _interrupt_briefly(client: Any) -> None:
    """Limit the time that Ctrl-C waits for a silent server after it stopped the running operation."""
    stop = client.interrupt_operation
    client.interrupt_operation = lambda operation: _is_soon_done(partial(stop, operation))


def _is_soon_done(work: Callable[[], object]) -> bool:
    """Run it in a thread and wait at most ``INTERRUPT_SECONDS``; return True if it ended."""

    def attempt() -> None:
        with suppress(Exception):  # as good as it goes: commits are fenced without it
            work()

    working = threading.Thread(target=attempt, daemon=True)
    working.start()
    working.join(INTERRUPT_SECONDS)
    return not working.is_alive()


def _attach(url: str, conf: dict[str, str], remote: str) -> SparkSession:
    from resources.spark_session import wait_for_answer  # noqa: PLC0415  (imports pyspark)

    try:
        wait_for_answer(url)
    except TimeoutError as error:
        raise no_answer(remote, error) from error
    return _session({**conf, "spark.remote": url})


def _session(conf: dict[str, str]) -> SparkSession:
    """Create a session with dagster-pyspark's resource."""
    from resources.spark_session import SparkSessionResource  # noqa: PLC0415  (imports pyspark)

    return SparkSessionResource(spark_config=conf).spark_session  # type: ignore[no-any-return]


def _launch(conf: dict[str, str], log_path: Path | None) -> None:
    """Start this process's JVM unless it runs; PySpark would put settings on its command line.

    Raises ``RetryableError`` (``server-start``) when it ends instead.
    """
    from pyspark import SparkContext  # noqa: PLC0415  (half a second, never at import)
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    if SparkContext._gateway is not None:  # noqa: SLF001  (as PySpark itself asks)
        return
    with TemporaryDirectory() as folder, _appending(log_path) as output:
        write_spark_defaults(Path(folder), conf)
        os.environ["SPARK_CONF_DIR"] = folder
        try:
            # Launches alone; making a context would tell all.
            gateway = launch_gateway(popen_kwargs=output)  # type: ignore[no-untyped-call]
            SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001
        except PySparkRuntimeError as error:
            if log_path is None:
                raise fault("server-start.in-process", why=error) from error
            raise fault("server-start.logged", why=last_line(log_path), log=log_path) from error
        finally:
            del os.environ["SPARK_CONF_DIR"]


@contextmanager
def _appending(log_path: Path | None) -> Iterator[dict[str, Any]]:
    """Yield an environment that appends a process's output to that file; without one, to ours."""
    if log_path is None:
        yield {}
        return
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("ab") as log:
        yield {"stdout": log, "stderr": log}


def _iceberg_conf(config: SluiceConfig) -> dict[str, str]:
    """Return the Spark configuration that a local session needs for Iceberg."""
    from servers.jars import jar_paths, lake_jar_sets  # noqa: PLC0415  (only upkeep without a server needs jars)

    paths = jar_paths(*lake_jar_sets(resolve(config.catalog.properties)))
    return {
        "spark.driver.extraClassPath": os.pathsep.join(str(path) for path in paths),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }


def _local_conf(config: SluiceConfig) -> dict[str, str]:
    processors = os.cpu_count() or 1
    return {
        "spark.app.name": "sluice",
        "spark.master": config.spark.master or f"local[{processors},{TASK_ATTEMPTS}]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG_SETTINGS}",
        "spark.pyspark.python": sys.executable,
        "spark.redaction.regex": SPARK_REDACTION,
        "spark.sql.redaction.options.regex": SPARK_REDACTION,
        **spark_catalog_conf(config.catalog.name, resolve(config.catalog.properties)),
        **resolve(config.spark.conf),
    }
