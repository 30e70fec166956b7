"""Freshness of many small pipelines in one ``up``: each topic gets a hundred records a minute.

The commits of the tables tell for every second how long the oldest record of each topic has waited.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from dagster import DagsterInstance, DagsterRunStatus, RunsFilter

from bench.empty_tick import p95
from bench.footprint import catalog_of, cpu_by_kind, running_up, wait_until
from bench.kafka_connect import commits_of
from bench.lab import Lab, open_lab
from bench.records import order_values
from servers.process import free_ports

FRESHNESS = "60s"
AT_ONCE = 10
EVERY_SECONDS = 6.0
GOAL_AGE_P95_SECONDS, GOAL_AGE_SECONDS, GOAL_FIRST_TICK_SECONDS = 90.0, 180.0, 10.0
# Of the minutes measured, those that count: the first ones find all tables due at once.
_UNCOUNTED = 3 / 13
_SENSOR = "backlog_sensor"


@dataclass(frozen=True, slots=True)
class ManyPipelinesResult:
    """Ages in seconds of the oldest waiting record, each second of each topic that has one.

    ``filled_seconds`` is until each table had its first records. ``cores_by_kind`` are of ``up`` meanwhile.
    """

    pipelines: int
    first_tick_seconds: float
    filled_seconds: float
    p50_seconds: float
    p95_seconds: float
    max_seconds: float
    producer_cores: float
    cores_by_kind: dict[str, float]
    runs: int
    failed_runs: int
    load: float


@dataclass(slots=True)
class Flow:
    """Produces to all topics in turn, evenly; ``produced_at`` is by topic the time of each few records."""

    producer: Producer
    topics: Sequence[str]
    produced_at: list[list[float]]
    is_over: threading.Event = field(default_factory=threading.Event)

    def produce(self, numbers: Iterable[int]) -> None:
        """Produce a few records to each of these topics."""
        for number in numbers:
            values = order_values(len(self.produced_at[number]) * AT_ONCE, AT_ONCE)
            self.produced_at[number].append(time.time())
            for value in values:
                self.producer.produce(self.topics[number], value)
        self.producer.flush()

    def run(self) -> None:
        """Go on until it is over."""
        began, done = time.time(), 0
        while not self.is_over.wait(0.05):
            due = int((time.time() - began) / EVERY_SECONDS * len(self.topics))
            self.produce(each % len(self.topics) for each in range(done, due))
            done = due


def measure_many_pipelines(lab: Lab, pipelines: int, minutes: int) -> ManyPipelinesResult:
    """Run ``up`` with that many pipelines, and records for that many minutes after the first drains."""
    home = lab.folder / f"many-{pipelines}"
    topics = [f"many_{number:04d}" for number in range(pipelines)]
    tables = [f"bench.t{number:04d}" for number in range(pipelines)]
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_servers})
    for created in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
        created.result()
    flow = Flow(Producer({"bootstrap.servers": lab.bootstrap_servers}), topics, [[] for _ in topics])
    flow.produce(range(pipelines))
    catalog, began, waiting = catalog_of(home), time.time(), list(tables)

    def are_filled() -> bool:
        while waiting and (commits := commits_of(catalog, waiting[-1])) and commits[-1][1]:
            waiting.pop()
        return not waiting

    with running_up(_configured(lab, home, topics, tables)) as root:
        wait_until(are_filled)
        filled, before, load = time.time() - began, cpu_by_kind([root]), os.getloadavg()[0]
        began, spent = time.time(), time.process_time()
        with ThreadPoolExecutor(1) as pool:
            producing = pool.submit(flow.run)
            time.sleep(minutes * 60)
            flow.is_over.set()
            producing.result()
        ended, flow_cpu = time.time(), time.process_time() - spent
        after, load = cpu_by_kind([root]), max(load, os.getloadavg()[0])
        with DagsterInstance.from_config(str(home / ".sluice" / "dagster")) as instance:
            first_tick, drains = _first_tick(instance), instance.get_runs(RunsFilter(job_name="drain"))
        committed = [commits_of(catalog, table) for table in tables]
    ages = sorted(
        age
        for produced, commits in zip(flow.produced_at, committed, strict=True)
        for age in _ages(produced, commits, began + minutes * 60 * _UNCOUNTED, ended)
    )
    failed = sum(run.status is DagsterRunStatus.FAILURE for run in drains)
    cores = {kind: (now - before.get(kind, 0.0)) / (ended - began) for kind, now in after.items()}
    return ManyPipelinesResult(
        *(pipelines, first_tick, filled, median(ages), p95(ages), ages[-1]),
        *(flow_cpu / (ended - began), cores, len(drains), failed, load),
    )


def _ages(
    produced: Sequence[float], commits: Sequence[tuple[float, int]], since: float, until: float
) -> list[float]:
    """Return, for each second in which a record waits, how long the oldest has waited."""
    times, ages = [at for at, _ in commits], []
    for second in range(int(since), int(until)):
        landed = bisect_right(times, second)
        oldest = (commits[landed - 1][1] if landed else 0) // AT_ONCE
        if oldest < len(produced) and produced[oldest] <= second:
            ages.append(second - produced[oldest])
    return ages


def _configured(lab: Lab, home: Path, topics: Sequence[str], tables: Sequence[str]) -> Path:
    home.mkdir()
    document = {
        "version": 1,
        "kafka": {"bootstrap.servers": lab.bootstrap_servers},
        "catalog": {"name": "lake", **catalog_of(home)},
        "metrics": {"listen": f"127.0.0.1:{free_ports(1)[0]}"},
        "pipelines": {
            topic: {"topic": topic, "table": table, "freshness": FRESHNESS}
            for topic, table in zip(topics, tables, strict=True)
        },
    }
    path = home / "sluice.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def _first_tick(instance: DagsterInstance) -> float:
    (state,) = (each for each in instance.all_instigator_state() if each.instigator_name == _SENSOR)
    ticks = instance.get_ticks(state.instigator_origin_id, state.selector_id)
    first = min(ticks, key=lambda tick: tick.timestamp)
    return (first.end_timestamp or time.time()) - first.timestamp


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder, open_lab(Path(folder)) as opened:
        print(asdict(measure_many_pipelines(opened, *map(int, sys.argv[1:3]))))
