"""A long backlog: warm drain and bare loop on the same topic in the same run.

Both go several times in alternating order, so that a machine whose speed changes treats them alike.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.bare_loop import BareResult, run_bare_loop
from bench.drains import MeasuredDrain, run_drains
from bench.lab import Lab
from bench.records import ORDERS, PARTITIONS, Shape, fill, generate
from prove.lab.kafka_server import KafkaBroker
from resources.sluice import open_connections
from servers.spark_connect import SparkConnectServer
from spark_jobs.audit.audit import audit
from spark_jobs.config.file import load_config

ROUNDS = 2
FIRST_RECORDS = 4_000  # the tables are made from these; also what warms a session up
GOAL_RATIO = 0.95
GOAL_CPU_US_PER_ROW = 2.0
GOAL_AUDIT_RATIO = 4.0


@dataclass(frozen=True, slots=True)
class CatchUpRound:
    """One drain and one bare loop over the whole topic.

    ``drain_cpu_us_by_step`` is what the tasks count themselves, librdkafka's threads as a step of their own.
    ``drain_cpu_us`` is all of driver, Spark server and workers from the call of ``drain`` to its end;
    ``bare_cpu_us`` the loop's processes after their imports; ``audit_cpu_us`` an audit of the drain's table.
    The broker is in none.
    """

    order: str
    drain_seconds: float
    drain_rows: int
    drain_file_bytes: int
    drain_batches: int
    drain_cpu_us_by_step: dict[str, int]
    drain_cpu_us: float
    drain_durations_ms: dict[str, int]
    bare_seconds: float
    bare_rows: int
    bare_file_bytes: int
    bare_cpu_us: int
    audit_cpu_us: float

    @property
    def ratio(self) -> float:
        """The drain's speed relative to the bare loop's."""
        return self.bare_seconds / self.drain_seconds


@dataclass(frozen=True, slots=True)
class CatchUpResult:
    """All rounds over one topic; speeds are medians over rounds."""

    records: int
    value_bytes_per_record: float
    produced_per_second: float
    rounds: tuple[CatchUpRound, ...]

    @property
    def ratio(self) -> float:
        """Time of all bare loops divided by the time of all drains."""
        return sum(r.bare_seconds for r in self.rounds) / sum(r.drain_seconds for r in self.rounds)

    @property
    def cpu_ratio(self) -> float:
        """CPU time of the bare loop divided by the drain's, which other load disturbs less than time."""
        return self.bare_cpu_us_per_row / self.drain_cpu_us_per_row

    @property
    def drain_rows_per_second(self) -> float:
        """Rows committed per second."""
        return median(self.records / r.drain_seconds for r in self.rounds)

    @property
    def bare_rows_per_second(self) -> float:
        """Rows written by the bare loop per second."""
        return median(self.records / r.bare_seconds for r in self.rounds)

    @property
    def drain_megabytes_per_second(self) -> float:
        """JSON read per second, in 10^6 bytes."""
        return self.drain_rows_per_second * self.value_bytes_per_record / 1e6

    @property
    def cpu_us_per_row_by_step(self) -> dict[str, float]:
        """CPU microseconds of tasks per row."""
        steps = self.rounds[0].drain_cpu_us_by_step
        return {
            step: median(r.drain_cpu_us_by_step.get(step, 0) for r in self.rounds) / self.records
            for step in steps
        }

    @property
    def drain_cpu_us_per_row(self) -> float:
        """CPU microseconds per row of driver, server and workers; nan off Linux."""
        return median(r.drain_cpu_us for r in self.rounds) / self.records

    @property
    def bare_cpu_us_per_row(self) -> float:
        """CPU microseconds per row of the bare loop."""
        return median(r.bare_cpu_us for r in self.rounds) / self.records

    @property
    def audit_ratio(self) -> float:
        """CPU time of an audit divided by that of its drain."""
        return median(r.audit_cpu_us / r.drain_cpu_us for r in self.rounds)


def measure_catch_up(lab: Lab, records: int, rounds: int = ROUNDS, shape: Shape = ORDERS) -> CatchUpResult:
    """Fill a topic and read it both ways, ``rounds`` times, each drain into its own table.

    The tables are there already, made from a few records: a new table's first batch is read twice.
    """
    topic = f"catch-up-{shape.name}"
    before = f"{topic}-warm-up"
    generate(lab.bootstrap_servers, before, FIRST_RECORDS)
    generate(lab.bootstrap_servers, topic, FIRST_RECORDS, shape)
    with lab.spark(f"spark-{topic}") as spark:
        warm_up = lab.configure(before, before, spark)
        paths = [lab.configure(f"{topic}-{number}", topic, spark) for number in range(rounds)]
        run_drains(spark, warm_up, *paths)
        made = fill(lab.bootstrap_servers, topic, FIRST_RECORDS, records, shape)
        measured = []
        for number, path in enumerate(paths):
            fill(lab.bootstrap_servers, before, 0, FIRST_RECORDS)
            both = _BothWays(lab, spark, topic, shape, (warm_up, path))
            measured.append(_round(both, is_drain_first=number % 2 == 0))
    KafkaBroker(lab.bootstrap_servers).delete_topic(topic)
    return CatchUpResult(records, made.value_bytes_per_record, made.records_per_second, tuple(measured))


@dataclass(frozen=True, slots=True)
class _BothWays:
    """One topic for a drain and the bare loop; the first of ``configs`` is the warm-up."""

    lab: Lab
    spark: SparkConnectServer
    topic: str
    shape: Shape
    configs: tuple[Path, Path]

    def drain(self) -> tuple[MeasuredDrain, float]:
        process = run_drains(self.spark, *self.configs)
        audit_cpu_us = _audit_cpu_us(self.configs[-1])
        shutil.rmtree(self.configs[-1].parent)
        return process.drains[-1], audit_cpu_us

    def bare(self) -> BareResult:
        folder = self.lab.folder / "bare-loop"
        first_offset = FIRST_RECORDS // PARTITIONS
        result = run_bare_loop(
            self.lab.bootstrap_servers, self.topic, first_offset, folder, self.shape.schema
        )
        shutil.rmtree(folder)
        return result


def _round(both: _BothWays, *, is_drain_first: bool) -> CatchUpRound:
    if is_drain_first:
        drained, audit_cpu_us = both.drain()
        bare = both.bare()
    else:
        bare = both.bare()
        drained, audit_cpu_us = both.drain()
    return CatchUpRound(
        order="drain, bare loop" if is_drain_first else "bare loop, drain",
        drain_seconds=drained.seconds,
        drain_rows=drained.table_rows - FIRST_RECORDS,
        drain_file_bytes=drained.file_bytes,
        drain_batches=len(drained.batches),
        drain_cpu_us_by_step=drained.cpu_us,
        drain_cpu_us=drained.cpu_seconds * 1e6,
        drain_durations_ms=drained.durations_ms,
        bare_seconds=bare.seconds,
        bare_rows=bare.rows,
        bare_file_bytes=bare.file_bytes,
        bare_cpu_us=bare.cpu_us,
        audit_cpu_us=audit_cpu_us,
    )


def _audit_cpu_us(path: Path) -> float:
    config = load_config(path)
    pipeline = config.pipelines[0]
    with open_connections(config, pipeline.name, kind="audit", actor="bench", run_id="bench") as connections:
        started = time.process_time()
        result = audit(pipeline, connections)
    if not result.is_clean:
        raise AssertionError(result)
    return (time.process_time() - started) * 1e6
