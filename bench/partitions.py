"""The same records over few and over many Kafka partitions: the cost of a wide topic.

Each width is drained as one batch into a table of its own, in an order that turns round; then a batch of so
few records that each partition has two, which is how a wide topic looks while it is kept up with.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from bench.drains import MeasuredDrain, run_drains
from bench.lab import Lab
from bench.records import fill, generate
from prove.lab.kafka_server import KafkaBroker

WIDTHS = (4, 512)
ROUNDS = 2
FIRST_RECORDS = 4_000  # the tables are made from these
SMALL_RECORDS = 1_024
GOAL_CPU_RATIO = 1.3
GOAL_SMALL_RATIO = 3.0


@dataclass(frozen=True, slots=True)
class WidthDrain:
    """All drains of one width: CPU of driver, server and workers, nan off Linux.

    ``small_seconds`` is the median of the small batches, each in a process that had drained before.
    """

    rows: int
    cpu_us: float
    seconds: float
    small_seconds: float

    @property
    def cpu_us_per_row(self) -> float:
        """CPU microseconds per row of the long backlog."""
        return self.cpu_us / self.rows


@dataclass(frozen=True, slots=True)
class PartitionsResult:
    """Results by number of partitions; ``records`` is the number drained per round."""

    records: int
    by_width: dict[int, WidthDrain]

    @property
    def cpu_ratio(self) -> float:
        """CPU per row with many partitions divided by that with few."""
        few, many = self.by_width.values()
        return many.cpu_us_per_row / few.cpu_us_per_row

    @property
    def small_ratio(self) -> float:
        """The same for a small batch, by time."""
        few, many = self.by_width.values()
        return many.small_seconds / few.small_seconds


def measure_partitions(
    lab: Lab, records: int, *, widths: tuple[int, int] = WIDTHS, rounds: int = ROUNDS
) -> PartitionsResult:
    """Fill a topic of each width repeatedly, and drain it, each as one batch."""
    for width in widths:
        generate(lab.bootstrap_servers, _topic(width), FIRST_RECORDS, partitions=width)
    long: defaultdict[int, list[MeasuredDrain]] = defaultdict(list)
    small: defaultdict[int, list[MeasuredDrain]] = defaultdict(list)
    with lab.spark("spark-partitions") as spark:
        paths = {width: lab.configure(_topic(width), _topic(width), spark) for width in widths}
        run_drains(spark, *paths.values())
        for turn in range(rounds):
            order = list(paths)[:: -1 if turn % 2 else 1]
            for measured, number in ((long, records), (small, SMALL_RECORDS)):
                for width in order:
                    fill(lab.bootstrap_servers, _topic(width), 0, number, partitions=width)
                drains = run_drains(spark, *(paths[width] for width in order)).drains
                for width, drained in zip(order, drains, strict=True):
                    measured[width].append(drained)
    for width in paths:
        KafkaBroker(lab.bootstrap_servers).delete_topic(_topic(width))
    return PartitionsResult(records, {width: _summed(long[width], small[width]) for width in paths})


def _topic(width: int) -> str:
    return f"partitions-{width}"


def _summed(long: list[MeasuredDrain], small: list[MeasuredDrain]) -> WidthDrain:
    return WidthDrain(
        rows=sum(drained.rows for drained in long),
        cpu_us=sum(drained.cpu_seconds for drained in long) * 1e6,
        seconds=sum(drained.seconds for drained in long),
        small_seconds=median(drained.seconds for drained in small),
    )
