"""What a run says of a batch, phase by phase, and in the end: the same in a terminal and in Dagster's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.protocol import mends
from spark_jobs.protocol.source import held_back
from spark_jobs.protocol.words import count, counts, rate, seconds, when

if TYPE_CHECKING:
    from spark_jobs.drain.batch_run import BatchResult, BatchRun
    from spark_jobs.drain.drain import DrainResult
    from spark_jobs.protocol.batch import Pause
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


def ended_line(result: DrainResult, milliseconds: float) -> str:
    """Return how a drain ended, also when there was nothing to do; the time is its run's."""
    batches = count(len(result.batches), "batch", "batches")
    if result.paused is not None:
        return f"{batches} drained; {paused_line(result.paused)} ({mends.resume(result.pipeline)})"
    lag = f"lag {count(result.lag_records, 'record')}"
    if result.undecided:
        lag += f", {held_back(result.undecided)}"
    if result.held:
        return f"{result.held[0].tell(result.pipeline)}; {lag}"
    if not (result.batches or result.recovery.adopted):
        if not result.next_offsets:
            return f"nothing to do: the topic has no record yet, so there is no table {result.table} either"
        return f"nothing to do: {result.table} has everything up to the topic's last stable offsets; {lag}"
    named = result.dead_letter_phases, result.filtered_reasons, result.routed_tables
    adopted = f"{count(len(result.recovery.adopted), 'batch', 'batches')} adopted, "
    return (
        f"{result.stopped}: {adopted if result.recovery.adopted else ''}{batches} of"
        f" {count(result.balance.records, 'record')} drained in {seconds(milliseconds)}"
        f" ({counts(result.balance, *named)}); {lag}"
    )


def paused_line(paused: Pause) -> str:
    """Return since when, by whom and why a pipeline is paused."""
    return f"paused since {when(paused.at_ms * 1000)} by {paused.actor}: {paused.reason}"


def _shown(ranges: OffsetRanges) -> str:
    shown = " ".join(str(each) for each in ranges.ranges[:_MOST_RANGES])
    more = len(ranges.ranges) - _MOST_RANGES
    return f"{shown} and {more:,} more" if more > 0 else shown
