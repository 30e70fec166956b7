"""Batch history: one entry with the outcome of every finished attempt, in a table of its own. Pure.

The log is for recovery and is emptied as attempts finish; the books are for ever. An entry is made of an
attempt's log alone, so that folding it twice gives the same entry.
"""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.config.values import BOOKS_TABLE
from spark_jobs.protocol.batch import BatchCounts
from spark_jobs.protocol.commit_summary import CommitSummary
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.protocol.work import Effect, Work, work_of
from spark_jobs.txlog.entries import (
    PHASE_NUMBERS,
    Attempt,
    Closed,
    FlushComplete,
    IcebergSnapshotCreated,
    OffsetCommit,
    ParquetWritten,
    Phase,
)

# Listing a table's log costs one request per thousand objects, and 150 attempts have 900. Each fold adds a
# small file to the books, so it takes as many attempts as that allows.
DEFAULT_DUE_ATTEMPTS = 150
_COMPLETE = PHASE_NUMBERS[Phase.FLUSH_COMPLETE]


@dataclass(frozen=True, slots=True)
class BookEntry:
    """One attempt. ``is_landed`` is False for one that was given up or has not landed yet.

    What its damaged or missing log objects would have said is 0, empty or None. ``started_at_us`` is when its
    ranges were planned, ``valid_through_ms`` the record time up to which the table was complete with it.
    """

    pipeline: str
    table: str
    table_uuid: str
    kind: str
    batch_id: str
    attempt: str
    topic: str
    generation: int
    ranges: OffsetRanges
    is_landed: bool
    counts: BatchCounts
    snapshot_id: int | None
    dead_letter_snapshot_id: int | None
    durations_ms: dict[str, int]
    reason: str
    actor: str
    run_id: str
    sluice_version: str
    started_at_us: int
    finished_at_us: int | None
    valid_through_ms: int | None

    @property
    def work(self) -> Work:
        """The attempt's work."""
        return work_of(self.kind)

    @property
    def skipped(self) -> int:
        """Offsets that an operator skipped: they have no row, dead letter, tombstone or gap."""
        return self.ranges.records if self.is_landed and self.work.effect is Effect.PASSED_OVER else 0

    @property
    def offsets(self) -> int:
        """Number of offsets covered; for a redrive, of its dead letters, which lie among others."""
        return self.counts.balance.offsets if self.work.effect is Effect.SOME else self.ranges.records


def is_due(finished_attempts: int, *, due_attempts: int = DEFAULT_DUE_ATTEMPTS) -> bool:
    """True if folding is worth a commit."""
    return finished_attempts >= due_attempts


def books_of(table: str) -> str:
    """Return the identifier of the batch history table of the data table ``table``."""
    namespace, dot, _ = table.rpartition(".")
    return f"{namespace}{dot}{BOOKS_TABLE}"


def entry_of(attempt: Attempt) -> BookEntry | None:
    """Return the entry of an attempt by its current log; None if no object can be read."""
    batch = attempt.batch
    if batch is None:
        return None
    begun = attempt.entry(OffsetCommit)
    written = attempt.entry(ParquetWritten)
    created = attempt.entry(IcebergSnapshotCreated)
    complete, closed = attempt.entry(FlushComplete), attempt.entry(Closed)
    return BookEntry(
        pipeline=batch.pipeline,
        table=batch.table,
        table_uuid=attempt.table_uuid,
        kind=batch.kind.name,
        batch_id=batch.batch_id,
        attempt=attempt.uuid,
        topic=batch.topic,
        generation=batch.generation,
        ranges=batch.ranges,
        is_landed=created is not None or complete is not None or attempt.reached == _COMPLETE,
        counts=written.counts if written else BatchCounts(),
        snapshot_id=created.snapshot_id if created else None,
        dead_letter_snapshot_id=complete.dead_letter_snapshot_id if complete else None,
        durations_ms=complete.durations_ms if complete else {},
        reason=begun.reason if begun else "",
        actor=begun.actor if begun else "",
        run_id=begun.run_id if begun else "",
        sluice_version=begun.sluice_version if begun else "",
        # Every object repeats the batch: whichever of them are left, the time is the same.
        started_at_us=batch.ingested_at_us,
        finished_at_us=complete.completed_at_us if complete else closed.closed_at_us if closed else None,
        valid_through_ms=CommitSummary(written.summary).valid_through_ms if written else None,
    )
