"""Recovery: settle unfinished work of earlier runs of a pipeline before new work is planned.

It reads no record from Kafka: a batch whose files are complete is committed from them. Two recoveries at
once, or one beside the run it recovers from, are harmless: the swap decides who commits, and files are
deleted only when nobody can commit them any more. What is decided is in ``spark_jobs.recovery.decide``; here
it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from spark_jobs.commit.anchor import check_anchor, check_properties
from spark_jobs.commit.batch_commit import commit_of
from spark_jobs.commit.pending_commit import commit_pending
from spark_jobs.commit.swap import land
from spark_jobs.commit.sweep import sweep_files
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import load_fresh, load_routed
from spark_jobs.lake.named_files import named_of
from spark_jobs.lake.tables import data_location, dead_letters_of, progress_of, snapshot_of
from spark_jobs.protocol.batch import Batch, WrittenFile
from spark_jobs.protocol.commit_summary import actor_summary, adoption_summary, publication_summary
from spark_jobs.protocol.errors import CommitConflict, SourceChanged
from spark_jobs.protocol.offsets import NO_RANGES
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import may_come_late
from spark_jobs.protocol.work import Settler
from spark_jobs.recovery.decide import (
    AdoptedBatch,
    Decision,
    LeftAttempt,
    RecoveryResult,
    Verdict,
    attempts_of,
    decide,
    held_batch,
)
from spark_jobs.storage.errors import storage_error
from spark_jobs.storage.paths import normalise_path
from spark_jobs.txlog.entries import (
    Attempt,
    Closed,
    FlushComplete,
    FlushStart,
    IcebergSnapshotCreated,
    OffsetCommit,
    ParquetWritten,
    Published,
    Swept,
)
from spark_jobs.txlog.store import CLOSING_AFTER_US

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections


def recover(pipeline: PipelineConfig, connections: Connections) -> RecoveryResult:
    """Settle every unfinished attempt of the pipeline's table, and its pending files.

    Raises ``RetryableError`` and ``CommitStateUnknown`` when a part is away: run it again. ``ConfigError``
    when the log lies under the table, ``CorruptLog`` for objects of a newer version and
    properties set by hand.
    """
    recovery = _Recovery(pipeline, connections)
    if (table := recovery.load(pipeline.table)) is None:
        return RecoveryResult()
    connections.txlog.refuse_location(pipeline.table, table.location(), data_location(table))
    check_properties(table)
    recovery.commit_pending(progress_of(table))
    unfinished = connections.txlog.unfinished(str(table.metadata.table_uuid), now_us=connections.now_us())
    return recovery.settle_all(attempts_of(Settler.DRAIN, unfinished))


def settle_replays(
    pipeline: PipelineConfig, connections: Connections, attempts: Sequence[Attempt]
) -> RecoveryResult:
    """Mark or sweep these unfinished replays; leave those that may still land. Raises as ``recover``."""
    recovery = _Recovery(pipeline, connections)
    if (table := recovery.load(pipeline.table)) is None:
        return RecoveryResult()
    check_properties(table)
    recovery.commit_pending(progress_of(table))
    return recovery.settle_all(attempts)


def sweep_strays(pipeline: PipelineConfig, connections: Connections, table_uuid: str, attempt: str) -> int:
    """Delete leftovers of failed tries of a landed attempt's tasks; return the number of files."""
    recovery = _Recovery(pipeline, connections)
    table = recovery.load(pipeline.table)
    if table is None or not progress_of(table).has_landed(attempt):
        return 0
    return sum(
        recovery.delete_strays(logged, table) for logged in connections.txlog.read(table_uuid, [attempt])
    )


class _Recovery:
    """One recovery in progress; each step returns what it settled."""

    def __init__(self, pipeline: PipelineConfig, connections: Connections) -> None:
        self._pipeline = pipeline
        self._connections = connections

    def load(self, identifier: str) -> Table | None:
        """Load the table through a new catalog object."""
        return load_fresh(self._connections, identifier)

    def interrupt(self, attempt: Attempt) -> None:
        """Stop Spark work that may still run, to free its cores; nothing depends on it."""
        is_reading_over = attempt.entry(ParquetWritten) or attempt.entry(Swept)
        if is_reading_over is None and attempt.batch is not None:
            begun = attempt.entry(OffsetCommit)
            self._connections.interrupt(begun.spark_tag if begun else attempt.uuid)
            self._reach("after-interrupt")

    def commit_pending(self, progress: Progress) -> int | None:
        """Commit the data table's pending files; return the snapshot id of pending dead letters."""
        connections = self._connections
        summary = actor_summary(connections.actor, connections.run_id)
        try:
            committed = commit_pending(connections, self._pipeline.table, progress, summary)
        except CommitConflict:
            return None  # another run finished them and went on: what was loaded here is old
        self._reach("after-dead-letters")
        return committed.snapshot_id if committed else None

    def settle_all(self, attempts: Sequence[Attempt]) -> RecoveryResult:
        """Stop running tasks, then settle one attempt after the other."""
        for attempt in attempts:
            self.interrupt(attempt)
        # What can be adopted comes first: the table is then past what other attempts have of the same range.
        first = sorted(attempts, key=lambda attempt: attempt.entry(ParquetWritten) is None)
        return reduce(RecoveryResult.__add__, map(self.settle, first), RecoveryResult())

    def settle(self, attempt: Attempt) -> RecoveryResult:
        """Decide about one attempt by the table's current state, and act."""
        table, batch = self.load(self._pipeline.table), attempt.batch
        if table is None or str(table.metadata.table_uuid) != attempt.table_uuid:
            return _left(attempt, "the table was dropped or replaced meanwhile")
        verdict = _decide(attempt, table)
        if verdict.decision is Decision.ADOPT and progress_of(table).paused is not None:
            return _left(attempt, "the pipeline is paused")
        if batch is None or verdict.decision is Decision.LEAVE:
            return _left(attempt, verdict.reason)
        if verdict.decision is Decision.HOLD:
            return RecoveryResult(held=(held_batch(attempt, batch),))
        act = {Decision.MARK: self._mark, Decision.SWEEP: self._sweep, Decision.ADOPT: self._adopt}
        return act[verdict.decision](attempt, batch, table)

    def _mark(self, attempt: Attempt, batch: Batch, table: Table) -> RecoveryResult:
        dead_letters = self.commit_pending(progress_of(table))
        deleted = self.delete_strays(attempt, table)
        self._log_landed(attempt, batch, snapshot_of(table, attempt.uuid), dead_letters)
        return RecoveryResult(marked=(attempt.uuid,), swept_files=deleted)

    def _adopt(self, attempt: Attempt, batch: Batch, table: Table) -> RecoveryResult:
        """Commit the attempt's files under its own uuid: if it is still alive, it sees that it has landed."""
        connections = self._connections
        written = attempt.entry(ParquetWritten)
        if written is None:
            raise AssertionError("only an attempt that wrote its files is adopted")
        summary = written.summary | adoption_summary(connections.run_id)
        if (published := attempt.entry(Published)) is not None:
            summary |= publication_summary(published.actor, published.reason)
        adopted = replace(written, summary=summary)
        at_ms = connections.now_us() // 1000
        intent = commit_of(attempt.table_uuid, batch, adopted, committed_at_ms=at_ms)
        try:
            check_anchor(table)
            self._reach("before-adoption")
            committed = land(connections, intent)
        except (CommitConflict, SourceChanged) as error:
            # Neither is final here: the next recovery marks or sweeps it, the drain reports a changed source.
            return _left(attempt, f"adoption was refused: {error.message}")
        self._reach("after-adoption")
        dead_letters = self.commit_pending(committed.progress)
        landed = self.load(self._pipeline.table)
        deleted = self.delete_strays(attempt, landed) if landed is not None else 0
        self._log_landed(attempt, batch, committed.snapshot_id, dead_letters)
        brought = AdoptedBatch(batch, written.counts, committed.snapshot_id)
        return RecoveryResult(adopted=(brought,), swept_files=deleted)

    def _sweep(self, attempt: Attempt, batch: Batch, table: Table) -> RecoveryResult:
        connections = self._connections
        deleted = self._delete_unnamed(attempt, [table, *self._pending_tables(table).values()])
        now_us = connections.now_us()
        mark = Closed if now_us - batch.ingested_at_us >= CLOSING_AFTER_US else Swept
        entry = mark(deleted, connections.run_id, now_us)
        connections.txlog.append(attempt.table_uuid, batch, entry, reached=attempt.reached)
        return RecoveryResult(swept=(attempt.uuid,), swept_files=deleted)

    def delete_strays(self, attempt: Attempt, table: Table) -> int:
        """Delete leftovers of failed tries of a landed attempt, except pending files.

        Should it never come, its files are orphans.
        """
        tables = self._pending_tables(table)
        waiting = [
            name
            for name in _pending_by(attempt, self._pipeline.table, progress_of(table).routes)
            if may_come_late(progress_of(tables[name]) if name in tables else None, attempt.uuid)
        ]
        spared = {data_location(tables[name]) for name in waiting if name in tables}
        begun = attempt.entry(FlushStart)
        if begun is not None and waiting:
            # Of which table each was is not logged; one is spared for another's sake once.
            spared |= {*begun.routed_locations, *filter(None, [begun.dead_letter_location])}
        return self._delete_unnamed(attempt, [table, *tables.values()], frozenset(spared))

    def _pending_tables(self, table: Table) -> dict[str, Table]:
        """Return the existing tables for which it may have pending files, loaded after it."""
        name = dead_letters_of(self._pipeline.table)
        letters = self.load(name)
        return ({} if letters is None else {name: letters}) | load_routed(self.load, table)

    def _delete_unnamed(
        self, attempt: Attempt, tables: Sequence[Table], spared: frozenset[str] = frozenset()
    ) -> int:
        """Delete the attempt's unreferenced files; the table has passed its starts."""
        deleted = sweep_files(
            attempt, tables, before_delete=lambda: self._reach("before-delete"), spared=spared
        )
        self._reach("after-sweep")
        return deleted

    def _log_landed(
        self, attempt: Attempt, batch: Batch, snapshot_id: int | None, dead_letter_snapshot_id: int | None
    ) -> None:
        log, run_id = self._connections.txlog, self._connections.run_id
        created = IcebergSnapshotCreated(snapshot_id, run_id, self._connections.now_us())
        log.append(attempt.table_uuid, batch, created)
        self._reach("after-iceberg-snapshot-created")
        complete = FlushComplete({}, dead_letter_snapshot_id, run_id, self._connections.now_us())
        log.append(attempt.table_uuid, batch, complete)
        self._reach("after-flush-complete")

    def _reach(self, place: str) -> None:
        self._connections.fail_points.reach(f"recover.{place}")


def _left(attempt: Attempt, reason: str) -> RecoveryResult:
    ranges = attempt.batch.ranges if attempt.batch else NO_RANGES
    return RecoveryResult(left=(LeftAttempt(attempt.uuid, reason, ranges),))


def _pending_by(attempt: Attempt, data_table: str, routes: Sequence[str]) -> list[str]:
    """Return the tables for which the attempt's commit had pending rows or removals."""
    written, every = attempt.entry(ParquetWritten), [dead_letters_of(data_table), *routes]
    if written is None or attempt.batch is None:
        return every
    with_files = [*(every[:1] if written.dead_letter_files else ()), *written.routed_files]
    added = attempt.batch.kind.new(with_files)
    return every if added is None else added


def _decide(attempt: Attempt, table: Table) -> Verdict:
    written = attempt.entry(ParquetWritten)
    data_files = written.data_files if written else ()
    files = written.every_file if written else ()
    paths = frozenset(normalise_path(file.path) for file in data_files)
    return decide(
        attempt,
        progress_of(table),
        has_all_files=lambda: all(_is_whole(table, file) for file in files),
        names_its_files=lambda: bool(named_of(table, paths)) or snapshot_of(table, attempt.uuid) is not None,
    )


def _is_whole(table: Table, file: WrittenFile) -> bool:
    try:
        return len(table.io.new_input(file.path)) == file.bytes
    except FileNotFoundError:
        return False
    except OSError as error:
        raise storage_error(error, "looking at a file of an unfinished batch", file=file.path) from error
