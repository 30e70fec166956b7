"""One batch, phase by phase: plan, log, read and write, verify, commit, dead letters.

Between any two lines the process may be killed: the log says what was begun, the table what was done.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs import __version__
from spark_jobs.commit.anchor import check_anchor
from spark_jobs.commit.batch_commit import commit_of
from spark_jobs.commit.pending_commit import commit_pending
from spark_jobs.commit.swap import Committed, land
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import shape_of
from spark_jobs.drain.batch_run import BatchResult, BatchRun, Tables, planned_line, read_line
from spark_jobs.drain.gate import GateVerdict, can_reject, held_error, judge_written, log_held
from spark_jobs.drain.planning import MAX_SPLIT_BYTES, bytes_per_record, plan_ranges, plan_splits, resumed
from spark_jobs.drain.write_splits import check, read_and_write, summary_of
from spark_jobs.kafka.reader import cut_below
from spark_jobs.lake.tables import data_location, progress_of
from spark_jobs.protocol.batch import Batch, Written
from spark_jobs.protocol.commit_summary import CommitSummary, gate_summary
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import OffsetRanges, SchemaKey
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import SourceState, drain_refusal
from spark_jobs.protocol.work import Work
from spark_jobs.protocol.works.drain import DRAIN
from spark_jobs.recovery.recover import sweep_strays
from spark_jobs.schema.arrow_schema import json_columns
from spark_jobs.schema.column_source import ignored_notes
from spark_jobs.txlog.entries import (
    BufferSnapshot,
    FlushComplete,
    FlushStart,
    IcebergSnapshotCreated,
    OffsetCommit,
    ParquetWritten,
)

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections


_log = logging.getLogger(__name__)

# What a task's process takes before it reads anything.
IMPORTED_BYTES = 192 << 20


def drain_batch(run: BatchRun) -> tuple[BatchResult, Committed]:
    """Run a planned batch from its first log object to its last. Raises every kind of ``SluiceError``.

    ``BatchHeld`` is raised once the log says that the batch is held, with its files.
    """
    _log.info(planned_line(run))
    with run.steps.step("log"):
        _log_intent(run)
    with run.steps.step("tasks"):
        written = read_and_write(run)
    _log.info(read_line(written, run.steps.durations_ms["tasks"]))
    run.reach("after-tasks")
    with run.steps.step("verify"):
        check(run, written)
    written = run.pipeline.layout.settled(run, written, _write_again)
    with run.steps.step("gate"):
        written, verdict = _through_gates(run, written)
    with run.steps.step("log-written"):
        logged = _log_written(run, written, verdict)
    with run.steps.step("commit"):
        committed, leaves_strays = _commit(run, logged)
    with run.steps.step("dead-letters"):
        # The data commit has promised them: if this fails, recovery finishes it before any new batch.
        pending = commit_pending(run.connections, run.batch.table, committed.progress, logged.summary)
        run.reach("after-dead-letters")
    _warn(run, written)
    if written.has_strays or leaves_strays:
        sweep_strays(run.pipeline, run.connections, run.table_uuid, run.batch.attempt)
    letters, now_us = pending.snapshot_id if pending else None, run.connections.now_us()
    run.log(FlushComplete(run.steps.durations_ms, letters, run.connections.run_id, now_us))
    result = BatchResult(
        batch=run.batch,
        counts=logged.counts,
        snapshot_id=committed.snapshot_id,
        valid_through_ms=CommitSummary(logged.summary).valid_through_ms,
        durations_ms=run.steps.durations_ms,
        cpu_us=written.cpu_us,
        peak_task_rss_bytes=written.peak_task_rss_bytes,
        ignored=written.ignored,
    )
    return result, committed


def _warn(run: BatchRun, written: Written) -> None:
    batch, tombstones = run.batch, written.balance.tombstones
    if tombstones and run.pipeline.envelope is None:
        _log.warning(
            "%d records of topic %s have no value (tombstones): counted and skipped, no row is deleted"
            " (table %s, batch %s)",
            tombstones,
            batch.topic,
            batch.table,
            batch.batch_id,
        )
    for note in ignored_notes(written.ignored, run.pipeline.layout.unread):
        _log.warning("%s (table %s, batch %s)", note, batch.table, batch.batch_id)
    _warn_of_memory(run, written.peak_task_rss_bytes)


def _warn_of_memory(run: BatchRun, peak_bytes: int) -> None:
    """Warn that a task's process exceeded its memory; it keeps its peak while it lives."""
    limit_bytes = run.connections.task_memory_bytes
    if peak_bytes > limit_bytes + IMPORTED_BYTES:
        _log.warning(
            "a task took %d MiB, above spark.task_memory (%d MiB): a producer's batch is uncompressed as a"
            " whole; raise spark.task_memory, or send smaller batches (batch %s)",
            peak_bytes >> 20,
            limit_bytes >> 20,
            run.batch.batch_id,
        )


def _log_intent(run: BatchRun) -> None:
    """Log the planned ranges and file locations before anything is read or written."""
    connections, batch, table = run.connections, run.batch, run.tables.data
    run.log(
        OffsetCommit(
            batch_id=batch.batch_id,
            spark_session_id=getattr(connections.spark(), "session_id", None),
            spark_tag=batch.attempt,
            actor=connections.actor,
            run_id=connections.run_id,
            sluice_version=__version__,
            started_at_us=connections.now_us(),
            reason=run.reason,
        )
    )
    columns = json_columns(table)
    run.log(
        BufferSnapshot(
            schema_id=table.metadata.current_schema_id,
            columns=tuple(columns.names),
            timestamp_columns=tuple(f.name for f in columns if str(f.type).startswith("timestamp")),
            planned_records=batch.records,
            planned_bytes=batch.records * run.bytes_per_record,
        )
    )
    routed = tuple(data_location(each) for each in run.tables.routed.values())
    run.log(FlushStart(batch.attempt, data_location(table), data_location(run.tables.dead_letters), routed))


def _write_again(run: BatchRun, rejected: Mapping[int, Mapping[int, str]] | None) -> Written:
    """Write a batch again with these records as dead letters."""
    written = read_and_write(run, rejected)
    check(run, written)
    return written


def _through_gates(run: BatchRun, written: Written) -> tuple[Written, GateVerdict]:
    """Evaluate the batch's gates; if failing rows become dead letters, write it again and re-evaluate."""
    if not run.pipeline.gates:
        return written, GateVerdict()
    _log.info("judging the rows by %s", ", ".join(suite.name for suite in run.pipeline.gates))
    verdict = judge_written(run, written)
    if can_reject(run, verdict):
        written = _write_again(run, verdict.rejected)
        verdict = judge_written(run, written)
    run.connections.fail_points.reach("drain.after-gate")
    return written, verdict


def _log_written(run: BatchRun, written: Written, verdict: GateVerdict) -> ParquetWritten:
    """Log the written files: another run can now commit them without Kafka, unless they are held."""
    summary = summary_of(run, written)
    if run.pipeline.gates:
        summary |= gate_summary(is_held=bool(verdict.failed))
    if verdict.failed:
        log_held(run, verdict)
    entry = ParquetWritten(
        data_files=written.data_files,
        dead_letter_files=written.dead_letter_files,
        rows=written.balance.rows,
        bytes_read=written.bytes_read,
        file_bytes=sum(file.bytes for file in written.every_file),
        balances=written.balances,
        summary=summary,
        routed_files=written.routed_files,
    )
    run.log(entry)
    if verdict.failed:
        raise held_error(run, verdict)
    return entry


def _commit(run: BatchRun, logged: ParquetWritten) -> tuple[Committed, bool]:
    """Commit the batch; return the commit, and whether unreferenced files are left."""
    connections = run.connections
    # Not before any of its rows was ingested, to the millisecond.
    at_ms = -(-max(connections.now_us(), run.batch.ingested_at_us) // 1000)
    intent = commit_of(run.table_uuid, run.batch, logged, committed_at_ms=at_ms, columns=run.columns)
    committed = land(connections, intent)
    run.reach("after-commit")
    run.log(
        IcebergSnapshotCreated(
            committed.snapshot_id, connections.run_id, connections.now_us(), committed.retries
        )
    )
    return committed, bool(intent.tries_with_files(committed))


# A batch about to be read, on the table and topic as they are now: its ranges, its splits and its fence.


def plan_batch(
    pipeline: PipelineConfig,
    connections: Connections,
    source: SourceState,
    tables: Tables,
    tried: Iterable[OffsetRanges] = (),
    *,
    within: OffsetRanges | None = None,
) -> BatchRun | None:
    """Return the next batch, or None if the table has everything up to the last stable offsets.

    ``tried`` are the ranges of attempts that did not finish, oldest first. ``within`` are ranges from the
    table's next offsets on to take instead of all that is there. Raises ``SourceChanged`` when the topic or
    the table is not the one that was drained before and ``OffsetsUnavailable`` when Kafka no longer holds
    the next offset, or what the table has below it.
    """
    progress = progress_of(tables.data)
    check_anchor(tables.data)
    ask_leader = partial(cut_below, connections.kafka, progress, source)
    refusal = drain_refusal(progress, source, table=pipeline.table, ask_leader=ask_leader)
    if refusal is not None:
        raise refusal
    if progress.table_layout.keeps_newest:
        _refuse_new_partitions(pipeline, progress, source)
    ranges = within or resumed(
        plan_ranges(
            progress.next_offsets,
            source,
            max_records=pipeline.max_batch_records,
            max_bytes=pipeline.max_batch_bytes,
            bytes_per_record=bytes_per_record(progress.last_drain),
        ),
        tried,
    )
    return plan_of(pipeline, connections, tables, source, ranges) if ranges else None


def plan_of(
    pipeline: PipelineConfig,
    connections: Connections,
    tables: Tables,
    source: SourceState,
    ranges: OffsetRanges,
    *,
    work: Work = DRAIN,
    reason: str = "",
) -> BatchRun:
    """Return the batch of these ranges as a new attempt, fenced by the table's current progress."""
    progress = progress_of(tables.data)
    record_bytes = bytes_per_record(progress.last_drain)
    batch = Batch(
        pipeline=pipeline.name,
        table=pipeline.table,
        topic=pipeline.topic,
        generation=progress.generation,
        ranges=ranges,
        attempt=connections.new_attempt(),
        ingested_at_us=max(connections.now_us(), _last_commit_us(progress)),
        kind=work,
        epoch=work.fence.count(progress),
        cluster_id=source.cluster_id,
        topic_id=source.topic_id,
        leader_epochs={p: epoch for p, epoch in source.leader_epochs.items() if p in ranges.ends},
        read_by=_read_by(pipeline, connections, progress, work),
        shaped_by=shape_of(pipeline, connections),
    )
    splits = plan_splits(
        ranges,
        bytes_per_record=record_bytes,
        max_split_bytes=MAX_SPLIT_BYTES,
        parallelism=connections.parallelism,
    )
    return BatchRun(pipeline, connections, batch, splits, source, tables, record_bytes, reason)


def _refuse_new_partitions(pipeline: PipelineConfig, progress: Progress, source: SourceState) -> None:
    """Raise ``SourceChanged``: with more partitions, a key's next events are in another partition."""
    if new := sorted(set(source.end) - set(progress.next_offsets)):
        raise fault(
            "partitions-changed", new=", ".join(map(str, new)), **pipeline.where, topic=pipeline.topic
        )


def _read_by(
    pipeline: PipelineConfig, connections: Connections, progress: Progress, work: Work
) -> tuple[SchemaKey, ...]:
    if not pipeline.has_schemas:
        return ()
    return connections.schemas(pipeline).read_by(progress, asks_anew=work.asks_anew)


def _last_commit_us(progress: Progress) -> int:
    """Return a time no earlier than any row's ingestion, so that clocks may be set back."""
    return progress.last_drain.committed_at_ms * 1000 if progress.last_drain else 0
