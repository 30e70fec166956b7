"""Small batches: a run's first commit in a fresh process, further ones, and their parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bench.drains import DrainProcess, run_drains
from bench.lab import Lab
from bench.records import fill, generate

TOPIC = "small"
RECORDS = 1_000
GOAL_FIRST_SECONDS = 3.0  # on a warm server and session: attach, recover, plan, drain, commit
GOAL_LATER_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class FirstBatch:
    """From the request of a process to its first commit; the parts add up to ``seconds``.

    ``drain_seconds`` begins with recovery of what earlier runs left and ends with the commit.
    """

    start_seconds: float
    import_seconds: float
    connect_seconds: float
    drain_seconds: float
    durations_ms: dict[str, int]

    @property
    def warm_seconds(self) -> float:
        """Without the process's start and imports."""
        return self.connect_seconds + self.drain_seconds

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.start_seconds + self.import_seconds + self.warm_seconds


@dataclass(frozen=True, slots=True)
class SmallBatchesResult:
    """``later_seconds`` are between commits: look, plan, log, read, write, verify, commit."""

    records_per_batch: int
    runs: int
    rows: int
    expected_rows: int
    first: tuple[FirstBatch, ...]
    later_seconds: tuple[float, ...]
    later_durations_ms: dict[str, float]

    @property
    def warm_p50_seconds(self) -> float:
        """Median over runs of the first batch, from attaching to the warm session to its commit."""
        return median(first.warm_seconds for first in self.first)

    @property
    def first_p50_seconds(self) -> float:
        """The same with the process's start and imports."""
        return median(first.seconds for first in self.first)

    @property
    def later_p50_seconds(self) -> float:
        """Median over all later batches of all runs."""
        return median(self.later_seconds)

    @property
    def later_worst_seconds(self) -> float:
        """The slowest of them."""
        return max(self.later_seconds)


def measure_small_batches(lab: Lab, runs: int, batches_per_run: int) -> SmallBatchesResult:
    """Run repeatedly into one table, each time with a backlog of ``batches_per_run`` batches.

    The run before them, which makes the table and warms the session up, is not counted.
    """
    records = RECORDS * batches_per_run
    generate(lab.bootstrap_servers, TOPIC, RECORDS)
    processes: list[DrainProcess] = []
    with lab.spark("spark-small") as spark:
        path = lab.configure("small", TOPIC, spark, max_batch_records=RECORDS)
        run_drains(spark, path)
        for number in range(runs):
            fill(lab.bootstrap_servers, TOPIC, RECORDS + number * records, records)
            processes.append(run_drains(spark, path))
    drains = [process.drains[0] for process in processes]
    later_seconds = tuple(seconds for drained in drains for seconds in drained.batch_seconds[1:])
    later_ms = [batch.durations_ms for drained in drains for batch in drained.batches[1:]]
    return SmallBatchesResult(
        records_per_batch=RECORDS,
        runs=runs,
        rows=drains[-1].table_rows - RECORDS,
        expected_rows=runs * records,
        first=tuple(_first(process) for process in processes),
        later_seconds=later_seconds,
        later_durations_ms=_typical(later_seconds, later_ms),
    )


def _first(process: DrainProcess) -> FirstBatch:
    drained = process.drains[0]
    return FirstBatch(
        process.start_seconds,
        process.import_seconds,
        process.connect_seconds,
        drained.batch_seconds[0],
        drained.batches[0].durations_ms,
    )


def _typical(seconds: Sequence[float], durations_ms: Sequence[dict[str, int]]) -> dict[str, float]:
    """Return the median milliseconds by step of such batches, and of the time outside steps."""
    steps = dict.fromkeys(step for batch in durations_ms for step in batch)
    inside = {step: median(batch.get(step, 0) for batch in durations_ms) for step in steps}
    whole = zip(seconds, durations_ms, strict=True)
    around = median(1000 * taken - sum(batch.values()) for taken, batch in whole)
    return {**inside, "look, plan, last log": around}
