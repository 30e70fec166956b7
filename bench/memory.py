"""Growth of a task's memory with the backlog, and with the number of table partitions."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import Any

from bench.drains import run_drains
from bench.lab import Lab
from bench.records import fill, generate
from prove.lab.kafka_server import KafkaBroker

TIMES_LONGER = 10
GOAL_GROWTH = 0.2
FIRST_RECORDS = 4_000  # the tables are made from these
PARTITIONS_WRITTEN = (1, 10, 100)
_WHOLE_BACKLOG: dict[str, Any] = {"max_batch_records": 1_000_000_000, "max_batch_bytes": "1TiB"}


@dataclass(frozen=True, slots=True)
class MemoryResult:
    """Largest resident memory of any task's process, in bytes, by backlog.

    ``by_partitions`` is that of the short backlog by number of table partitions, whose rows come mixed;
    ``files_by_partitions`` is how many data files it became.
    """

    short_records: int
    short_rows: int
    short_peak_bytes: int
    long_records: int
    long_rows: int
    long_peak_bytes: int
    by_partitions: dict[int, int]
    files_by_partitions: dict[int, int]

    @property
    def growth(self) -> float:
        """Growth with the longer backlog: 0.2 is a fifth more."""
        return self.long_peak_bytes / self.short_peak_bytes - 1


@dataclass(frozen=True, slots=True)
class DrainedAlone:
    """One backlog: rows, data files, and the largest memory of any task's process, in bytes."""

    rows: int
    files: int
    peak_bytes: int


def measure_memory(lab: Lab, records: int) -> MemoryResult:
    """Drain ``records`` and ``TIMES_LONGER`` as many, each as one batch on its own server.

    One batch, because batches have a bound of their own: here the backlog has none but what tasks keep. A
    server of its own, because its workers stay, and the kernel tells only the largest memory they ever had.
    """
    short = drain_alone(lab, records)
    long = drain_alone(lab, records * TIMES_LONGER)
    spread = {number: drain_alone(lab, records, partitions=number) for number in PARTITIONS_WRITTEN}
    return MemoryResult(
        records,
        short.rows,
        short.peak_bytes,
        records * TIMES_LONGER,
        long.rows,
        long.peak_bytes,
        {number: one.peak_bytes for number, one in spread.items()},
        {number: one.files for number, one in spread.items()},
    )


def drain_alone(lab: Lab, records: int, *, partitions: int = 0) -> DrainedAlone:
    """Drain one backlog into a table with this many partitions, or without any."""
    name = f"memory-{records}-{partitions}"
    layout: dict[str, Any] = {"partition_by": f"bucket({partitions}, order_id)"} if partitions else {}
    generate(lab.bootstrap_servers, name, FIRST_RECORDS)
    with lab.spark(f"spark-{name}") as spark:
        path = lab.configure(name, name, spark, **_WHOLE_BACKLOG, **layout)
        run_drains(spark, path)
        fill(lab.bootstrap_servers, name, FIRST_RECORDS, records)
        drained = run_drains(spark, path).drains[0]
    shutil.rmtree(path.parent)
    KafkaBroker(lab.bootstrap_servers).delete_topic(name)
    peak_bytes = max(batch.peak_task_rss_bytes for batch in drained.batches)
    return DrainedAlone(drained.table_rows - FIRST_RECORDS, drained.data_files, peak_bytes)
