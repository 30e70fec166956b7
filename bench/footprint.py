"""Memory and CPU of ``up`` with an external broker, by process: at rest with Spark asleep, and draining.

Beside it on the same machine: Dagster's three processes with an empty code location, and Kafka Connect's
worker, idle and while its sink reads the same records.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.bare_dagster import bare_dagster
from bench.connect_worker import open_worker
from bench.drains import PROJECT
from bench.kafka_connect import COMMIT_INTERVAL_MS, TOPIC, Sink, commits_of
from bench.lab import Lab
from bench.processor_time import LiveProcess, tree
from bench.records import fill, generate
from prove.lab.kafka_server import KafkaBroker
from servers.process import free_ports, is_listening
from spark_jobs.connections.endpoints import read_endpoints

FIRST_RECORDS = 400
SETTLE_SECONDS = 30.0
IDLE_SECONDS = 60.0
SLEEP_AFTER = "10s"
GOAL_REST_BYTES, GOAL_MORE_BYTES, GOAL_MORE_CORES = 800 << 20, 250 << 20, 0.02
GOAL_HUNDRED_BYTES = 1_100 << 20
_SAMPLE_SECONDS = 0.5
_TIMEOUT_SECONDS = 1800.0  # a hundred tables are filled one by one
# What a process is, by words of its command line; the first that fits.
_KINDS = {
    "org.apache.spark": "Spark's server",
    "worker_daemon": "Spark's Python workers",
    "pyspark": "Spark's Python workers",
    "dagster._daemon": "Dagster's daemon",
    "servers.daemon": "Dagster's daemon",
    "dagster_webserver": "Dagster's webserver",
    "servers.webserver": "Dagster's webserver",
    "dagster api grpc": "Dagster's code server",
    "dagster code-server": "Dagster's code server",
    "multiprocessing": "runs",
    "run_resident": "runs",  # forked, and what they are forked from
    "runs_asleep": "runs",
    "-m cli watch": "metrics, catalog and states",
    "-m cli up": "up itself",
}
_ENDED = "processes that ended"


@dataclass(frozen=True, slots=True)
class Usage:
    """By kind of process: largest proportional memory, and mean number of busy processors."""

    seconds: float
    bytes_by_kind: dict[str, int]
    cores_by_kind: dict[str, float]
    largest_bytes: int

    @property
    def cores(self) -> float:
        """Sum over all processes."""
        return sum(self.cores_by_kind.values())


@dataclass(frozen=True, slots=True)
class Footprint:
    """Usage when idle, and while one topic's backlog is drained."""

    idle: Usage
    draining: Usage


@dataclass(frozen=True, slots=True)
class FootprintResult:
    """``up`` by number of pipelines, and Connect's worker with one sink; ``records`` is the backlog.

    ``dagster`` is Dagster alone, at rest.
    """

    records: int
    dagster: Usage
    up: dict[int, Footprint]
    connect: Footprint


def measure_footprint(
    lab: Lab,
    records: int,
    *pipelines: int,
    settle_seconds: float = SETTLE_SECONDS,
    idle_seconds: float = IDLE_SECONDS,
) -> FootprintResult:
    """Run Dagster alone, ``up`` with each number of pipelines, then Connect's worker."""
    watch = Watch(records, settle_seconds, idle_seconds)
    with bare_dagster(lab.folder / "bare-dagster") as alone:
        dagster = watch.at_rest(*alone)
    up = {number: measure_up(lab, watch, number) for number in pipelines}
    return FootprintResult(records, dagster, up, _measure_connect(lab, watch))


@dataclass(frozen=True, slots=True)
class Watch:
    """Duration and object of the observation."""

    records: int
    settle_seconds: float
    idle_seconds: float

    def at_rest(self, *roots: int) -> Usage:
        """Observe the processes below ``roots`` for a while."""
        time.sleep(self.settle_seconds)
        idle_until = time.monotonic() + self.idle_seconds
        return usage(roots, lambda: time.monotonic() >= idle_until)

    def both(self, root: int, produce: Callable[[], object], is_drained: Callable[[], bool]) -> Footprint:
        """Observe the processes below ``root`` when idle, then from a backlog until it is drained."""
        idle = self.at_rest(root)
        produce()
        return Footprint(idle, usage((root,), is_drained))


def measure_up(lab: Lab, watch: Watch, pipelines: int) -> Footprint:
    """Run ``up`` with this many pipelines, all caught up, and give the first one a backlog."""
    home = lab.folder / f"footprint-{pipelines}"
    names = [f"footprint-{pipelines}-{number}" for number in range(pipelines)]
    for name in names:
        generate(lab.bootstrap_servers, name, FIRST_RECORDS)
    path = _configured(lab, home, names)
    catalog = catalog_of(home)
    with running_up(path) as root:
        wait_until(lambda: all(commits_of(catalog, f"bench.{_plain(name)}") for name in names))
        wait_until(lambda: read_endpoints(str(home / ".sluice")).spark_asleep)
        first = names[0]
        footprint = watch.both(
            root,
            lambda: fill(lab.bootstrap_servers, first, FIRST_RECORDS, watch.records),
            lambda: commits_of(catalog, f"bench.{_plain(first)}")[-1][1] == FIRST_RECORDS + watch.records,
        )
    for name in names:
        KafkaBroker(lab.bootstrap_servers).delete_topic(name)
    return footprint


def _measure_connect(lab: Lab, watch: Watch) -> Footprint:
    generate(lab.bootstrap_servers, TOPIC, 4_000)
    with open_worker(lab) as worker:
        sink = Sink(lab, worker, 0)
        sink.prepare(COMMIT_INTERVAL_MS)
        worker.resume(sink.name)
        footprint = watch.both(
            worker.pid,
            lambda: fill(lab.bootstrap_servers, TOPIC, 4_000, watch.records),
            lambda: commits_of(sink.catalog_properties)[-1][1] == 4_000 + watch.records,
        )
    KafkaBroker(lab.bootstrap_servers).delete_topic(TOPIC)
    return footprint


def _configured(lab: Lab, home: Path, names: list[str]) -> Path:
    home.mkdir()
    document: dict[str, Any] = {
        "version": 1,
        "kafka": {"bootstrap.servers": lab.bootstrap_servers},
        "catalog": {"name": "lake", **catalog_of(home)},
        "spark": {"sleep_after": SLEEP_AFTER},
        "metrics": {"listen": f"127.0.0.1:{free_ports(1)[0]}"},
        "pipelines": {_plain(name): {"topic": name, "table": f"bench.{_plain(name)}"} for name in names},
    }
    path = home / "sluice.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def _plain(name: str) -> str:
    return name.replace("-", "_")


def catalog_of(home: Path) -> dict[str, str]:
    """Return the properties of a catalog in the folder."""
    return {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}/lake"}


@contextmanager
def running_up(path: Path) -> Iterator[int]:
    """Yield the process of ``./sluice up`` with this configuration."""
    port = free_ports(1)[0]
    environment = os.environ | {"SLUICE_CONFIG": str(path), "SLUICE_HOME": str(path.parent / ".sluice")}
    command = [sys.executable, "-m", "cli", "up", "--port", str(port)]
    log = (path.parent / "up.log").open("w")
    with log, subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=log, stderr=log) as process:
        try:
            wait_until(lambda: is_listening(port))
            yield process.pid
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)


def usage(roots: Sequence[int], is_over: Callable[[], bool]) -> Usage:
    """Sample the processes and their descendants until the end."""
    began, before = time.monotonic(), cpu_by_kind(roots)
    largest: Counter[str] = Counter()
    largest_bytes = 0
    deadline = began + _TIMEOUT_SECONDS
    while not is_over():
        if time.monotonic() > deadline:
            raise RuntimeError(f"the backlog was not drained in {_TIMEOUT_SECONDS:.0f} s")
        held: Counter[str] = Counter()
        for process in _trees(roots):
            held[_kind(process.words)] += process.pss_bytes()
        largest |= held
        largest_bytes = max(largest_bytes, held.total())
        time.sleep(_SAMPLE_SECONDS)
    seconds, after = time.monotonic() - began, cpu_by_kind(roots)
    cores = {kind: (spent - before.get(kind, 0.0)) / seconds for kind, spent in after.items()}
    return Usage(seconds, dict(largest), cores, largest_bytes)


def _trees(roots: Sequence[int]) -> Iterator[LiveProcess]:
    return (process for root in roots for process in tree(root))


def cpu_by_kind(roots: Sequence[int]) -> dict[str, float]:
    """Return CPU seconds so far; ended processes, such as runs, are a separate kind."""
    spent: defaultdict[str, float] = defaultdict(float)
    for process in _trees(roots):
        spent[_kind(process.words)] += process.cpu_seconds
        spent[_ENDED] += process.ended_cpu_seconds
    return spent


def _kind(words: str) -> str:
    return next((kind for sign, kind in _KINDS.items() if sign in words), "others")


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for what ``up`` is to do."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise RuntimeError(f"up was not ready in {_TIMEOUT_SECONDS:.0f} s: see its up.log")
        time.sleep(_SAMPLE_SECONDS)
