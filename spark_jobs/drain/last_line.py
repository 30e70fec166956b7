"""What a drain says in the end: the same words in a terminal and in Dagster's log."""

from spark_jobs.drain.drain import DrainResult
from spark_jobs.protocol import mends
from spark_jobs.protocol.source import held_back
from spark_jobs.protocol.words import count, counts, paused_line, seconds


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
