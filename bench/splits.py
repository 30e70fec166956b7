"""One Kafka partition drained by 1, 2 and 4 tasks: the gain of splitting a long partition.

A topic with one partition cannot be spread by its partitions; its offset range can. Every number of tasks
drains the same records into a table of its own, in an order that turns round every time.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from bench.drains import MeasuredDrain, run_drains
from bench.lab import Lab
from bench.records import fill, fill_partition, generate
from prove.lab.kafka_server import KafkaBroker

TOPIC, WARM_UP = "splits", "splits-warm-up"
FIRST_RECORDS = 4_000  # the tables are made from these
TASKS = (1, 2, 4)
ROUNDS = 2


@dataclass(frozen=True, slots=True)
class SplitDrain:
    """All drains of one number of tasks; ``cpu_us`` is of driver, server and workers, nan off Linux.

    ``files`` is how many data files a drain wrote: each task writes one.
    """

    rows: int
    files: int
    seconds: float
    cpu_us: float

    @property
    def rows_per_second(self) -> float:
        """Rows committed a second."""
        return self.rows / self.seconds

    @property
    def cpu_us_per_row(self) -> float:
        """CPU microseconds a row."""
        return self.cpu_us / self.rows


@dataclass(frozen=True, slots=True)
class SplitsResult:
    """Results by number of tasks; ``records`` is the number drained per round."""

    records: int
    by_tasks: dict[int, SplitDrain]

    def gain(self, tasks: int) -> float:
        """Speed relative to one task."""
        return self.by_tasks[tasks].rows_per_second / self.by_tasks[1].rows_per_second


def measure_splits(
    lab: Lab, records: int, *, tasks: tuple[int, ...] = TASKS, rounds: int = ROUNDS
) -> SplitsResult:
    """Fill one partition repeatedly, and drain it by each number of tasks, each as one batch."""
    generate(lab.bootstrap_servers, WARM_UP, FIRST_RECORDS)
    KafkaBroker(lab.bootstrap_servers).create_topic(TOPIC)
    fill_partition(lab.bootstrap_servers, TOPIC, 0, 0, FIRST_RECORDS)
    measured: defaultdict[int, list[MeasuredDrain]] = defaultdict(list)
    with lab.spark("spark-splits") as spark:
        warm_up = lab.configure(WARM_UP, WARM_UP, spark)
        paths = {number: lab.configure(f"{TOPIC}-{number}", TOPIC, spark, tasks=number) for number in tasks}
        run_drains(spark, warm_up, *paths.values())
        for turn in range(rounds):
            fill(lab.bootstrap_servers, WARM_UP, 0, FIRST_RECORDS)
            fill_partition(lab.bootstrap_servers, TOPIC, 0, FIRST_RECORDS + turn * records, records)
            order = list(paths)[:: -1 if turn % 2 else 1]
            drains = run_drains(spark, warm_up, *(paths[number] for number in order)).drains[1:]
            for number, drained in zip(order, drains, strict=True):
                measured[number].append(drained)
    KafkaBroker(lab.bootstrap_servers).delete_topic(TOPIC)
    return SplitsResult(records, {number: _summed(measured[number]) for number in tasks})


def _summed(drains: list[MeasuredDrain]) -> SplitDrain:
    return SplitDrain(
        rows=sum(drained.rows for drained in drains),
        files=drains[0].data_files,
        seconds=sum(drained.seconds for drained in drains),
        cpu_us=sum(drained.cpu_seconds for drained in drains) * 1e6,
    )
