"""What a run says of a batch, phase by phase: the same words in a terminal and in Dagster's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.protocol.words import count, counts, rate, seconds

if TYPE_CHECKING:
    from spark_jobs.drain.batch_run import BatchResult, BatchRun
    from spark_jobs.protocol.offsets import OffsetRanges
    from spark_jobs.spark.outcomes import Written

_MOST_RANGES = 8


def planned_line(run: BatchRun) -> str:
    """Return what is about to be read."""
    batch = run.batch
    return (
        f"planned {count(batch.records, 'dead letter' if batch.letters else 'offset')}"
        f" of {count(len(batch.ranges.ranges), 'partition')}"
        f" in {count(len(run.splits), 'task')}: {_shown(batch.ranges)}"
    )


def read_line(written: Written, milliseconds: int) -> str:
    """Return what was read and written, and how fast."""
    records = written.balance.records
    return (
        f"read and wrote {count(records, 'record')} ({written.bytes_read:,} bytes)"
        f" in {seconds(milliseconds)}, {rate(records, milliseconds)}"
    )


def committed_line(batch: BatchResult) -> str:
    """Return what became of a batch's records; the time is from its plan to its last commit."""
    named = batch.counts.dead_letter_phases, batch.counts.filtered_reasons, batch.counts.routed_tables
    told = counts(batch.counts.balance, *named)
    return (
        f"committed {told} in {seconds(sum(batch.durations_ms.values()))},"
        f" snapshot {batch.snapshot_id}: {_shown(batch.batch.ranges)}"
    )


def _shown(ranges: OffsetRanges) -> str:
    shown = " ".join(str(each) for each in ranges.ranges[:_MOST_RANGES])
    more = len(ranges.ranges) - _MOST_RANGES
    return f"{shown} and {more:,} more" if more > 0 else shown
