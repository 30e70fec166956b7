"""What a log says of a batch at a quality gate: held, or waiting to be published. Pure."""

from __future__ import annotations

from spark_jobs.protocol.commit_summary import CommitSummary
from spark_jobs.protocol.fences import stands_at_starts
from spark_jobs.protocol.progress import Progress
from spark_jobs.txlog.entries import Attempt, ParquetWritten, Published


def is_held(attempt: Attempt) -> bool:
    """True if its files failed a quality gate and no operator has published them."""
    written = attempt.entry(ParquetWritten)
    is_marked = written is not None and CommitSummary(written.summary).is_held
    return is_marked and attempt.entry(Published) is None


def is_waiting(attempt: Attempt, progress: Progress) -> bool:
    """True if a held attempt still stands where the table's next batch begins."""
    batch = attempt.batch
    return is_held(attempt) and batch is not None and stands_at_starts(progress, batch)
