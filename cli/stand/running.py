"""Servers of ``up`` and ``demo``: started in order, restarted when they end, stopped within seconds."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from cli import output
from servers.beside import CATALOG, GATEWAY, METRICS, SERVE, WATCH, Beside, start_beside
from servers.code_server import process_name
from servers.dagster import DAEMON, LOCATION, WEBSERVER, DagsterServers, DagsterSettings, start_dagster
from servers.environment import clean_environment
from servers.jars import lake_jar_sets
from servers.kafka import KafkaServer, KafkaSettings, start_kafka, with_login
from servers.private_dagster import forks_here
from servers.process import (
    ServerFolder,
    ServerProcess,
    free_ports,
    has_clients,
    is_listening,
    stop_recorded,
)
from servers.runs import NAME as RUNS
from servers.spark_connect import SparkConnectServer, SparkConnectSettings, start_spark_connect
from spark_jobs.config.listener import ListenerSettings
from spark_jobs.config.secrets import resolve
from spark_jobs.config.sections import RunStart
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.connections.endpoints import (
    Endpoints,
    clear_endpoints,
    embedded_kafka,
    forget_beats,
    write_endpoints,
)
from spark_jobs.connections.spark_use import note_use, unused_seconds
from spark_jobs.protocol.errors import CommitConflict, SluiceError
from spark_jobs.storage.state_files import make_state_folder

SOON_SECONDS = 30.0  # from one start to the next, at least; the first is at once
FAILURES, WITHIN_SECONDS, RARELY_SECONDS = 3, 600.0, 300.0


@dataclass(slots=True)
class Mending:
    """Restart policy; ``failing`` servers ended three times in ten minutes and have not run for five."""

    now: Callable[[], float] = time.monotonic
    failing: set[str] = field(default_factory=set)
    _starts: dict[str, list[float]] = field(default_factory=dict)

    def may_start(self, name: str) -> bool:
        """True if an ended server may be started now; counts the start."""
        now, starts = self.now(), self._starts.get(name, [])
        if starts and now - starts[-1] < (RARELY_SECONDS if name in self.failing else SOON_SECONDS):
            return False
        self._starts[name] = [*(at for at in starts if now - at < WITHIN_SECONDS), now]
        if len(self._starts[name]) >= FAILURES:
            self.failing.add(name)
        return True

    def forget(self, name: str) -> None:
        """Forget the starts of a server that was well when it was stopped."""
        self._starts.pop(name, None)

    def run(self, names: Collection[str]) -> None:
        """Note the running servers: one that runs for five minutes is no longer failing."""
        well = {each for each in names if self.now() - self._starts.get(each, [0])[-1] >= RARELY_SECONDS}
        self.failing -= well


KAFKA, SPARK, STREAM, REGISTRY = "kafka", "spark-connect", "sample-stream", "registry"
# Dagster first, so that its runs end while what they use still answers. All within 15 s, kills included.
CODE = process_name(LOCATION)
# Who is served there loses an answer when one of them ends, and nothing else stops: it is started again.
BESIDE = (WATCH, SERVE, GATEWAY)
LISTENERS = {METRICS: "metrics", CATALOG: "catalog server", SERVE: "query server", GATEWAY: "gateway"}
# The daemon goes before what runs are started from: a run that it took from its queue meanwhile would fail.
STOP_ORDER = ((DAEMON, WEBSERVER, STREAM, *BESIDE), (CODE, RUNS), (KAFKA, SPARK, REGISTRY))
STOP_GRACE_SECONDS = 4.0
GATEWAY_PARTITIONS = 4
Started = TypeVar("Started")
PROJECT = Path(__file__).resolve().parents[2]


@dataclass(slots=True)
class Servers:
    """The started servers by name; with ``has_login`` the broker uses TLS and a login."""

    config: SluiceConfig
    has_login: bool = False
    processes: dict[str, ServerProcess] = field(default_factory=dict)
    beside: dict[str, Beside] = field(default_factory=dict)
    endpoints: Endpoints = field(default_factory=Endpoints)
    dagster: DagsterServers | None = None
    kafka: KafkaSettings | None = None
    spark: SparkConnectSettings | None = None
    mending: Mending = field(default_factory=Mending)

    @property
    def home(self) -> Path:
        """Return the state folder."""
        return Path(self.config.home)

    def folder(self, name: str) -> ServerFolder:
        """Return the folder of the server of that name."""
        return ServerFolder(self.home, name)

    def start_backends(self, *, registry_port: int | None = None) -> None:
        """Start the broker and Spark server in parallel, unless the configuration names others.

        With ``registry_port``, also start an empty schema registry on that port.
        """
        spark = self.config.spark
        make_state_folder(self.home)
        starts: list[Callable[[], None]] = []
        if not self.config.has_broker:
            starts.append(self._start_kafka)
        if not (spark.is_elsewhere or spark.master):
            starts.append(self._start_spark)
        if registry_port is not None:
            starts.append(partial(self._start_registry, registry_port))
        with ThreadPoolExecutor(max_workers=3) as pool:
            for started in [pool.submit(start) for start in starts]:
                started.result()
        write_endpoints(self.config.home, self.endpoints)

    def start_dagster(self, port: int) -> str:
        """Start Dagster's daemon and webserver and return the UI's address; port 0 is a free one."""
        self.dagster = dagster = start_dagster(
            DagsterSettings(
                sluice_home=self.home,
                config_path=self.config.source,
                port=port or free_ports(1)[0],
                ui=self.config.ui,
                forks=self.config.runs.start is RunStart.FORK and forks_here(),
            )
        )
        (code,) = dagster.code_servers
        self.processes |= {DAEMON: dagster.daemon, WEBSERVER: dagster.webserver, CODE: code.process}
        if dagster.resident:
            self.processes[RUNS] = dagster.resident.process
        if dagster.failed_runs:
            output.say(
                f"  failed {output.count(dagster.failed_runs, 'run')} that an earlier daemon left behind"
            )
        return dagster.url

    def reload(self) -> None:
        """Reload Dagster's definitions; running runs continue."""
        if self.dagster is not None:
            self.dagster.reload()

    def start_stream(self) -> None:
        """Create the sample and gateway topics, and start the sample stream into the embedded broker."""
        from cli.stand.sample_data import SAMPLE_PARTITIONS, SAMPLE_TOPICS, create_sample_topics, package_file

        package_file(SAMPLE_TOPICS[0].file)
        taken = {stream.topic: GATEWAY_PARTITIONS for stream in self.config.gateway.streams.values()}
        create_sample_topics(embedded_kafka(self.config.home), SAMPLE_PARTITIONS | taken)
        self._start_sample()

    def _start_sample(self) -> None:
        command = [sys.executable, "-m", f"{__package__}.sample_stream", self.config.home]
        environment = clean_environment()
        self.processes[STREAM] = ServerProcess(self.folder(STREAM), command, environment, PROJECT)

    def start_beside(self, wanted: Collection[str] = BESIDE, *, insecure: bool = False) -> dict[str, str]:
        """Start these processes and return the addresses of their listeners by name."""
        config = self.config
        listeners: dict[str, dict[str, ListenerSettings]] = {
            WATCH: {METRICS: config.metrics, CATALOG: config.catalog_server}
        }
        if any(pipeline.hot for pipeline in config.pipelines) and config.serve.listen:
            listeners[SERVE] = {SERVE: config.serve}
        if config.gateway.streams and config.gateway.listen:
            listeners[GATEWAY] = {GATEWAY: config.gateway}
        for name in (name for name in listeners if name in wanted):
            started = start_beside(name, listeners[name], self.home, config.source, insecure=insecure)
            self.beside[name], self.processes[name] = started, started.process
        urls = {name: url for each in self.beside.values() for name, url in each.urls.items()}
        self.endpoints = replace(self.endpoints, serve=urls.get(SERVE))
        write_endpoints(self.config.home, self.endpoints)
        return urls

    def mend(self) -> None:
        """Restart ended servers; one that failed three times in ten minutes only every five minutes.

        A listener whose work another process has taken over is not restarted: both would take it from each
        other forever.
        """
        before = set(self.mending.failing)
        self._sleep_or_wake()
        away = {name: each for name, each in self.processes.items() if not self._is_there(name, each)}
        self.mending.run(self.processes.keys() - away.keys())
        for name, process in away.items():
            beside = self.beside.get(name)
            if self.processes[name] is not process:
                continue  # all of Dagster is started at once
            if beside and process.exit_code == CommitConflict.exit_code:
                del self.beside[name]
                self.processes.pop(name).stop()
                served = " and ".join(LISTENERS[each] for each in beside.urls)
                output.say(f"{served} stopped: another process has taken over; {self._log(name)}")
            elif (beside and beside.lost_its_port) or self.mending.may_start(name):
                why = "its socket was missing" if process.is_running else "it had ended"
                process.stop()
                self._start_again(name, beside, f"{why}; {self._log(name)}")
        failing = {name: str(self.folder(name).log_path) for name in sorted(self.mending.failing)}
        if before != failing.keys():
            self.endpoints = replace(self.endpoints, failing=failing)
            write_endpoints(self.config.home, self.endpoints)
        for name in sorted(failing.keys() - before):
            output.say(
                f"{name} keeps failing: it is restarted every five minutes; other servers are not affected"
            )

    def stop(self) -> None:
        """Stop all started servers; repeated calls do nothing."""
        clear_endpoints(self.config.home)
        for names in STOP_ORDER:
            stopping = [self.processes.pop(name) for name in names if name in self.processes]
            with ThreadPoolExecutor(len(names)) as pool:
                list(pool.map(lambda process: process.stop(STOP_GRACE_SECONDS), stopping))
        forget_beats(self.config.home)  # last: a sensor ticks until Dagster has ended

    def _is_there(self, name: str, process: ServerProcess) -> bool:
        """Return False if a server ended, or if a socket of Dagster's is missing."""
        sockets = self.dagster.sockets if self.dagster and name == CODE else ()
        return process.is_running and all(each.exists() for each in sockets)

    def _start_again(self, name: str, beside: Beside | None, why: str) -> None:
        """Restart an ended server at its address, or at another if its port was lost; print failures."""
        starts = {KAFKA: self._start_kafka, SPARK: self._start_spark, STREAM: self._start_sample}
        try:
            if beside is not None:
                taken = " or ".join(beside.urls.values())
                why = f"another process took {taken}" if beside.lost_its_port else why
                urls = self.start_beside([name], insecure=beside.is_insecure)
                for each in beside.urls:
                    output.say(f"{LISTENERS[each]} restarted at {urls[each]}: {why}")
                return
            output.say(f"restarting {name}: {why}")
            if name in starts:
                starts[name]()
            elif self.dagster is not None:  # all of it: what runs it had under way is settled so
                self.dagster.stop(STOP_GRACE_SECONDS)
                self.start_dagster(urlsplit(self.dagster.url).port or 0)
        except SluiceError as error:
            output.render_error(error)

    def _sleep_or_wake(self) -> None:
        """Stop a Spark server that nothing used for long, and start it when a process waits for it."""
        if self.spark is None:
            return
        home = self.config.home
        with unused_seconds(home) as seconds:
            if self.endpoints.spark_asleep:
                if seconds is None and self.mending.may_start(SPARK):
                    self._wake()
                return
            if seconds is None or seconds < self.config.spark.sleep_after_seconds:
                return
            spark = self.processes[SPARK]
            if has_clients(spark.pid, self.spark.port):
                note_use(home)
            elif spark.is_running:
                spark.stop(STOP_GRACE_SECONDS)
                del self.processes[SPARK]
                self.mending.forget(SPARK)
                self.endpoints = replace(self.endpoints, spark_asleep=True)
                write_endpoints(home, self.endpoints)
                output.say(f"{SPARK} stopped, as nothing used it; the next run starts it")

    def _wake(self) -> None:
        output.say(f"starting {SPARK}: a run waits for it")
        try:
            if self.spark is not None and is_listening(self.spark.port):  # another program's by now
                self.spark = replace(self.spark, port=free_ports(1)[0])
            self._start_spark()
        except SluiceError as error:
            output.render_error(error)
        else:
            write_endpoints(self.config.home, self.endpoints)

    def _log(self, name: str) -> str:
        return f"its log is {self.folder(name).log_path}"

    def _start_kafka(self) -> None:
        """Start the broker; a restart keeps its address and data."""
        plain = KafkaSettings(self.folder(KAFKA), *free_ports(2))
        settings = self.kafka or (with_login(plain) if self.has_login else plain)
        kafka: KafkaServer = _timed("Kafka broker", lambda: start_kafka(settings))
        self.processes[KAFKA] = kafka.process
        self.kafka = settings
        at, login = kafka.bootstrap_servers, dict(settings.login)
        self.endpoints = replace(self.endpoints, kafka_bootstrap_servers=at, kafka_login=login)

    def _start_spark(self) -> None:
        """Start the Spark server; a restart keeps its address, so that clients find it."""
        home = self.home / "spark"
        self.spark = settings = self.spark or SparkConnectSettings(
            self.folder(SPARK),
            home=home,
            port=free_ports(1)[0],
            cores=os.cpu_count() or 1,
            conf=resolve(self.config.spark.conf),
            jar_sets=lake_jar_sets(resolve(self.config.catalog.properties)),
        )
        spark: SparkConnectServer = _timed("Spark Connect server", lambda: start_spark_connect(settings))
        self.processes[SPARK] = spark.process
        self.endpoints = replace(self.endpoints, spark_remote=spark.remote, spark_asleep=False)
        note_use(self.config.home)

    def _start_registry(self, port: int) -> None:
        from servers.registry import start_registry

        registry = _timed("Schema registry", lambda: start_registry(self.folder(REGISTRY), port))
        self.processes[REGISTRY] = registry.process


@contextmanager
def servers_of(config: SluiceConfig, *, has_login: bool = False) -> Iterator[Servers]:
    """Yield servers that are all stopped when the block is left."""
    servers = Servers(config, has_login)
    try:
        yield servers
    finally:
        with _undisturbed():
            servers.stop()


def stop_left_over(config: SluiceConfig) -> list[str]:
    """Stop recorded servers whose starter has ended, by identity; return the names of those that ran."""
    home, stopped = Path(config.home), []
    for names in STOP_ORDER:
        stopped += [name for name in names if stop_recorded(ServerFolder(home, name), STOP_GRACE_SECONDS)]
    clear_endpoints(config.home)
    return stopped


def _timed(what: str, start: Callable[[], Started]) -> Started:
    began = time.monotonic()
    result = start()
    output.say(f"  {what} answers after {output.seconds((time.monotonic() - began) * 1000)}")
    return result


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore a second Ctrl-C, which would leave servers running."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
