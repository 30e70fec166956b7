"""One topic read by Sluice's drain and by Kafka Connect with Iceberg's own sink.

Both write Iceberg tables with the same properties through a catalog in SQLite into a local folder. Connect is
given what it needs to be quick: as many tasks as processors, large polls, a table that exists, and a worker
that has done records of this topic before the clock starts, as the drain has. What stays different is what
the two promise: Sluice writes eight columns of where a record came from, sets bad records aside and follows
new fields; the sink writes the JSON's columns, and a bad record ends its task. Connect's commits are made by
a coordinator through a control topic each ``interval``, so its end lies up to an interval after its work.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.connect_worker import ConnectWorker, open_worker
from bench.drains import run_drains
from bench.lab import Lab
from bench.processor_time import TreeClock
from bench.records import JSON_SCHEMA, fill, generate
from prove.lab.kafka_server import KafkaBroker
from spark_jobs.commit.table_creation import TABLE_PROPERTIES
from spark_jobs.lake.catalog import close_catalog, open_catalog
from spark_jobs.lake.catalog_names import java_properties

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

TOPIC, WARM_UP = "kafka-connect", "kafka-connect-warm-up"
FIRST_RECORDS = 4_000  # the tables hold these before the clock starts
ROUNDS = 2
COMMIT_INTERVAL_MS = 5_000
_TIMEOUT_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Sunk:
    """A reader's result over the whole topic; ``cpu_us`` is of all processes, nan off Linux.

    ``busy_rows_per_second`` leaves out what comes before the first commit and after the last but one: of the
    sink it is the speed without waiting for the next interval. None when there were too few commits.
    """

    rows: int
    seconds: float
    cpu_us: float
    commits: int
    busy_rows_per_second: float | None

    @property
    def rows_per_second(self) -> float:
        """From the start of reading to the last commit."""
        return self.rows / self.seconds


@dataclass(frozen=True, slots=True)
class KafkaConnectResult:
    """Each reader's rounds over the same records; speeds are medians over rounds."""

    records: int
    commit_interval_ms: int
    drains: tuple[Sunk, ...]
    sinks: tuple[Sunk, ...]

    @property
    def speed_ratio(self) -> float:
        """The drain's speed divided by Connect's, by time to the last commit."""
        return sum(sunk.seconds for sunk in self.sinks) / sum(sunk.seconds for sunk in self.drains)

    @property
    def cpu_ratio(self) -> float:
        """Connect's CPU time divided by the drain's."""
        return cpu_us_per_row(self.sinks) / cpu_us_per_row(self.drains)


def cpu_us_per_row(rounds: Sequence[Sunk]) -> float:
    """Return the median round's CPU microseconds per row; nan off Linux."""
    return median(sunk.cpu_us / sunk.rows for sunk in rounds)


def measure_kafka_connect(
    lab: Lab, records: int, *, rounds: int = ROUNDS, interval_ms: int = COMMIT_INTERVAL_MS
) -> KafkaConnectResult:
    """Fill a topic and read it both ways in alternating order, each time into a new table."""
    generate(lab.bootstrap_servers, WARM_UP, FIRST_RECORDS)
    generate(lab.bootstrap_servers, TOPIC, FIRST_RECORDS)
    drains: list[Sunk] = []
    sinks: list[Sunk] = []
    with lab.spark("spark-kafka-connect") as spark, open_worker(lab) as worker:
        warm_up = lab.configure(WARM_UP, WARM_UP, spark)
        paths = [lab.configure(f"{TOPIC}-{number}", TOPIC, spark) for number in range(rounds)]
        run_drains(spark, warm_up, *paths)
        sides = [Sink(lab, worker, number) for number in range(rounds)]
        for side in sides:
            side.prepare(interval_ms)
        fill(lab.bootstrap_servers, TOPIC, FIRST_RECORDS, records)
        for number, (path, side) in enumerate(zip(paths, sides, strict=True)):
            if number % 2:
                sinks.append(side.measure(records))
            fill(lab.bootstrap_servers, WARM_UP, 0, FIRST_RECORDS)
            drained = run_drains(spark, warm_up, path).drains[-1]
            cpu_us = drained.cpu_seconds * 1e6
            drains.append(Sunk(drained.rows, drained.seconds, cpu_us, len(drained.batches), None))
            shutil.rmtree(path.parent)
            if not number % 2:
                sinks.append(side.measure(records))
    KafkaBroker(lab.bootstrap_servers).delete_topic(TOPIC)
    return KafkaConnectResult(records, interval_ms, tuple(drains), tuple(sinks))


@dataclass(frozen=True, slots=True)
class Sink:
    """One connector with its own table and control topic."""

    lab: Lab
    worker: ConnectWorker
    number: int

    @property
    def name(self) -> str:
        """The connector's name."""
        return f"sink-{self.number}"

    @property
    def home(self) -> Path:
        """The folder of its lake."""
        return self.lab.folder / self.name

    @property
    def catalog_properties(self) -> dict[str, str]:
        """PyIceberg's properties; the kind of catalog is the drain's."""
        return {
            "type": "sql",
            "uri": f"sqlite:///{self.home}/catalog.db",
            "warehouse": f"file://{self.home}/lake",
        }

    def prepare(self, interval_ms: int) -> None:
        """Let it write the existing records, and pause it."""
        KafkaBroker(self.lab.bootstrap_servers).create_topic(f"control-{self.name}")
        with _opened(self.catalog_properties) as catalog:
            catalog.create_namespace("bench")
            catalog.create_table("bench.orders", JSON_SCHEMA, properties=TABLE_PROPERTIES)
        java = java_properties(self.catalog_properties)
        self.worker.add_sink(
            self.name,
            {
                "tasks.max": str(os.cpu_count() or 1),
                "topics": TOPIC,
                "iceberg.catalog": "lake",
                **{f"iceberg.catalog.{key}": value for key, value in java.items()},
                "iceberg.tables": "bench.orders",
                "iceberg.control.topic": f"control-{self.name}",
                "iceberg.control.commit.interval-ms": str(interval_ms),
            },
        )
        self._wait_for(FIRST_RECORDS)
        self.worker.pause(self.name)

    def measure(self, records: int) -> Sunk:
        """Let it read the rest of the topic, and stop it."""
        began, clock = time.time(), TreeClock(self.worker.pid)
        self.worker.resume(self.name)
        commits = [one for one in self._wait_for(FIRST_RECORDS + records) if one[0] > began]
        cpu_us = clock.seconds() * 1e6
        self.worker.remove(self.name)
        shutil.rmtree(self.home, ignore_errors=True)  # its coordinator may be ending yet
        busy = commits[:-1]
        return Sunk(
            rows=records,
            seconds=commits[-1][0] - began,
            cpu_us=cpu_us,
            commits=len(commits),
            busy_rows_per_second=(busy[-1][1] - busy[0][1]) / (busy[-1][0] - busy[0][0])
            if len(busy) > 1
            else None,
        )

    def _wait_for(self, rows: int) -> list[tuple[float, int]]:
        """Wait until the table holds this many rows; return the commits' times and row counts."""
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while True:
            commits = commits_of(self.catalog_properties)
            if commits and commits[-1][1] >= rows:
                break
            if (failure := self.worker.failure(self.name)) is not None:
                raise RuntimeError(f"Connect's task failed: {failure}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"Connect had not written {rows} rows after {_TIMEOUT_SECONDS:.0f} s")
            time.sleep(0.25)
        if commits[-1][1] != rows:
            raise RuntimeError(f"Connect wrote {commits[-1][1]} rows of {rows}")
        return commits


def commits_of(catalog_properties: dict[str, str], table: str = "bench.orders") -> list[tuple[float, int]]:
    """Return the times of a table's commits, with row counts; empty without a table."""
    with _opened(catalog_properties) as catalog:
        snapshots = catalog.load_table(table).metadata.snapshots if catalog.table_exists(table) else []
    return [
        (snapshot.timestamp_ms / 1000, int(snapshot.summary["total-records"] or 0))
        for snapshot in snapshots
        if snapshot.summary
    ]


@contextmanager
def _opened(properties: dict[str, str]) -> Iterator[Catalog]:
    catalog = open_catalog("lake", properties)
    try:
        yield catalog
    finally:
        close_catalog(catalog)
