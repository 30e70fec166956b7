"""Batches and log entries for tests, with only what a test is about spelled out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_jobs.protocol.batch import Balance, Batch, WrittenFile
from spark_jobs.protocol.commit_summary import gate_summary
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.protocol.progress import Progress
from spark_jobs.txlog.entries import (
    BufferSnapshot,
    FlushComplete,
    FlushStart,
    IcebergSnapshotCreated,
    OffsetCommit,
    ParquetWritten,
)

if TYPE_CHECKING:
    from spark_jobs.txlog.entries import Entry

TABLE_UUID = "0a0a0a0a-0000-4000-8000-000000000001"


def make_batch(
    attempt: str = "attempt-a", *, start: int = 0, end: int = 10, generation: int = 0, at_us: int = 1_000
) -> Batch:
    """A batch over partition 0 of topic ``t``."""
    ranges = OffsetRanges.between({0: start}, {0: end})
    return Batch("t", "demo.t", "t", generation, ranges, attempt, at_us)


def make_progress(next_offset: int = 0, *, generation: int = 0) -> Progress:
    """A table over topic ``t`` with one partition."""
    return Progress("t", generation, {0: next_offset}, cluster_id="c", topic_id="i", anchor=1)


def offset_commit(batch: Batch) -> OffsetCommit:
    """The first phase of ``batch``."""
    return OffsetCommit(
        batch.batch_id, "session", batch.attempt, "tests", "run-1", "0.1.0", batch.ingested_at_us, ""
    )


def buffer_snapshot() -> BufferSnapshot:
    """The second phase."""
    return BufferSnapshot(0, ("id", "name"), ("time",), 10, 2_400)


def flush_start(batch: Batch, data_location: str = "/lake/t/data") -> FlushStart:
    """The third phase; files carry the attempt's uuid."""
    return FlushStart(batch.attempt, data_location, None)


def written_file(path: str, *, rows: int = 10) -> WrittenFile:
    """A file of 900 bytes of an unpartitioned table, without statistics."""
    return WrittenFile(path, 0, (), rows, 900, (4,), {}, {}, {}, {}, {}, {})


def parquet_written(batch: Batch, *files: WrittenFile) -> ParquetWritten:
    """The fourth phase, balanced: every offset became a row."""
    balances = {r.partition: Balance(rows=len(r)) for r in batch.ranges}
    return ParquetWritten(
        files, (), batch.ranges.records, 2_400, 900, balances, {"sluice.batch-id": batch.batch_id}
    )


def held_written(batch: Batch, *files: WrittenFile) -> ParquetWritten:
    """The fourth phase of a batch that failed a gate."""
    written = parquet_written(batch, *files)
    return replace(written, summary=written.summary | gate_summary(is_held=True))


def finished_phases(batch: Batch) -> tuple[Entry, ...]:
    """All six phases of a batch that went through."""
    return (
        offset_commit(batch),
        buffer_snapshot(),
        flush_start(batch),
        parquet_written(batch, written_file(f"/lake/t/data/{batch.attempt}-0.parquet")),
        IcebergSnapshotCreated(7, "run-1", 2_000),
        FlushComplete({"commit": 30}, None, "run-1", 3_000),
    )
