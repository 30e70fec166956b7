"""Whether a task's memory grows with the backlog: the same drain of a small and of a long one."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.drain_process import run_drains
from bench.records import delete_topic, fill, generate

if TYPE_CHECKING:
    from bench.lab import Lab

TIMES_LONGER = 10
GOAL_GROWTH = 0.2
FIRST_RECORDS = 4_000  # the tables are made from these
_WHOLE_BACKLOG = {"max_batch_records": 1_000_000_000, "max_batch_bytes": "1TiB"}


@dataclass(frozen=True, slots=True)
class MemoryResult:
    """Largest resident memory any task's process ever had, in bytes, by backlog."""

    short_records: int
    short_rows: int
    short_peak_bytes: int
    long_records: int
    long_rows: int
    long_peak_bytes: int

    @property
    def growth(self) -> float:
        """How much more the longer backlog took: 0.2 is a fifth more."""
        return self.long_peak_bytes / self.short_peak_bytes - 1


def measure_memory(lab: Lab, records: int) -> MemoryResult:
    """Drain ``records`` and ``TIMES_LONGER`` as many, each as one batch on a server of its own.

    One batch, because batches have a bound of their own: here the backlog has none but what tasks keep. A
    server of its own, because its workers stay, and the kernel tells only the largest memory they ever had.
    """
    short_rows, short_peak = drain_alone(lab, records)
    long_rows, long_peak = drain_alone(lab, records * TIMES_LONGER)
    return MemoryResult(records, short_rows, short_peak, records * TIMES_LONGER, long_rows, long_peak)


def drain_alone(lab: Lab, records: int) -> tuple[int, int]:
    """Rows of one backlog and the largest memory a task's process ever had, in bytes."""
    name = f"memory-{records}"
    generate(lab.bootstrap_servers, name, FIRST_RECORDS)
    with lab.spark(f"spark-{name}") as spark:
        path = lab.configure(name, name, spark, **_WHOLE_BACKLOG)
        run_drains(spark, path)
        fill(lab.bootstrap_servers, name, FIRST_RECORDS, records)
        drained = run_drains(spark, path).drains[0]
    shutil.rmtree(path.parent)
    delete_topic(lab.bootstrap_servers, name)
    return drained.table_rows - FIRST_RECORDS, max(batch.peak_task_rss_bytes for batch in drained.batches)
