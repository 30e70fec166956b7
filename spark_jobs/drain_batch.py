"""One batch, phase by phase, in the order things happen: log, read and write, verify, commit, dead letters.

Between any two lines the process may be killed: the log says what was begun, the table what was done.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs import __version__
from spark_jobs.batch_run import BatchResult, BatchRun, Plan
from spark_jobs.core.batch import total
from spark_jobs.core.errors import ConfigError
from spark_jobs.core.outcomes import OutcomeKind
from spark_jobs.core.progress import PendingDeadLetters
from spark_jobs.core.txlog import (
    BufferSnapshot,
    FlushComplete,
    FlushStart,
    IcebergSnapshotCreated,
    OffsetCommit,
    ParquetWritten,
)
from spark_jobs.decode.records import Origin
from spark_jobs.io.arrow_schema import arrow_schema, json_columns
from spark_jobs.io.commit import CommitRequest, commit_batch, commit_dead_letters
from spark_jobs.io.spark_tasks import run_on_spark
from spark_jobs.io.sweep import data_location
from spark_jobs.recover import sweep_strays
from spark_jobs.rows import RowMaker
from spark_jobs.split_task import SplitSource, SplitTask, run_split, table_target
from spark_jobs.table_columns import add_observed_columns
from spark_jobs.written import add_up, summary_of, verify

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.core.config import PipelineConfig
    from spark_jobs.core.outcomes import SplitOutcome
    from spark_jobs.io.connections import Connections
    from spark_jobs.io.landing import Committed
    from spark_jobs.written import Written

_log = logging.getLogger(__name__)

# Each round adds columns, so this many mean values whose fields never end.
MAX_EVOLUTION_ROUNDS = 8


def drain_batch(pipeline: PipelineConfig, connections: Connections, plan: Plan) -> BatchResult:
    """Take one planned batch from its first log object to its last. Raises every kind of ``SluiceError``."""
    run = BatchRun(pipeline, connections, plan)
    with run.steps.step("log"):
        _log_intent(run)
    with run.steps.step("tasks"):
        written = _read_and_write(run)
    connections.fail_points.reach("drain.after-tasks")
    with run.steps.step("verify"):
        verify(run, written)
    request = _commit_request(run, written)
    with run.steps.step("log-written"):
        _log_written(run, written, request)
    with run.steps.step("commit"):
        committed = _commit(run, request)
    with run.steps.step("dead-letters"):
        dead_letter_snapshot_id = _commit_dead_letters(run, request, committed)
    _warn_of_tombstones(run, written)
    if written.has_strays:
        sweep_strays(pipeline, connections, request.table_uuid, plan.batch.attempt)
    run.log(
        FlushComplete(
            run.steps.durations_ms, dead_letter_snapshot_id, connections.run_id, connections.now_us()
        )
    )
    return _result(run, written, request, committed.snapshot_id)


def _warn_of_tombstones(run: BatchRun, written: Written) -> None:
    tombstones = total(written.balances.values()).tombstones
    if tombstones:
        _log.warning(
            "%d records of topic %s have no value (tombstones): counted and skipped, no row is deleted"
            " (table %s, batch %s)",
            tombstones,
            run.plan.batch.topic,
            run.plan.batch.table,
            run.plan.batch.batch_id,
        )


def _log_intent(run: BatchRun) -> None:
    """What is about to be read and where files will appear, before any of it happens."""
    connections, plan = run.connections, run.plan
    run.log(
        OffsetCommit(
            batch_id=plan.batch.batch_id,
            spark_session_id=getattr(connections.spark(), "session_id", None),
            spark_tag=plan.batch.attempt,
            actor=connections.actor,
            run_id=connections.run_id,
            sluice_version=__version__,
            started_at_us=connections.now_us(),
        )
    )
    columns = json_columns(plan.table)
    run.log(
        BufferSnapshot(
            schema_id=plan.table.metadata.current_schema_id,
            columns=tuple(columns.names),
            timestamp_columns=tuple(f.name for f in columns if str(f.type).startswith("timestamp")),
            planned_records=plan.batch.ranges.records,
            planned_bytes=plan.batch.ranges.records * plan.bytes_per_record,
        )
    )
    run.log(
        FlushStart(
            file_prefix=plan.batch.attempt,
            data_location=data_location(plan.table),
            dead_letter_location=data_location(plan.dead_letter_table),
        )
    )


def _read_and_write(run: BatchRun) -> Written:
    """Run the splits; those that met new fields are done again once the table has columns for them."""
    plan = run.plan
    table = plan.table
    waiting = {split.split_id: split for split in plan.splits}
    done: list[SplitOutcome] = []
    has_strays = False
    for _ in range(MAX_EVOLUTION_ROUNDS):
        work = partial(run_split, _task(run, table))
        outcomes = run_on_spark(run.connections.spark(), work, list(waiting.values()), tag=plan.batch.attempt)
        observed = [outcome for outcome in outcomes if outcome.kind is OutcomeKind.OBSERVED]
        done += [outcome for outcome in outcomes if outcome.kind is OutcomeKind.WRITTEN]
        has_strays = has_strays or bool(observed) or any(outcome.failed_tries for outcome in outcomes)
        if not observed:
            return add_up(done, has_strays=has_strays)
        waiting = {outcome.split_id: waiting[outcome.split_id] for outcome in observed}
        table = add_observed_columns(run.pipeline, run.connections, table, observed)
    raise ConfigError(
        f"the records still have new fields after {MAX_EVOLUTION_ROUNDS} rounds of adding columns",
        code="endless-fields",
        hint="Keys that are data belong into a map; declare it, for example `tags: map<string, string>`.",
        pipeline=run.pipeline.name,
    )


def _task(run: BatchRun, table: Table) -> SplitTask:
    batch, connections = run.plan.batch, run.connections
    return SplitTask(
        source=SplitSource(connections.kafka, batch.topic, connections.task_memory_bytes),
        rows=RowMaker(
            Origin(batch.topic, batch.generation, batch.ingested_at_us),
            batch.batch_id,
            arrow_schema(table.schema()),
            arrow_schema(run.plan.dead_letter_table.schema()),
        ),
        file_prefix=batch.attempt,
        data=table_target(table),
        dead_letters=table_target(run.plan.dead_letter_table),
        fail_points=connections.fail_points,
    )


def _commit_request(run: BatchRun, written: Written) -> CommitRequest:
    batch = run.plan.batch
    owed = None
    if written.dead_letter_files:
        owed = PendingDeadLetters(
            batch.attempt, batch.ranges.starts, batch.ranges.ends, written.dead_letter_files
        )
    return CommitRequest(
        identifier=batch.table,
        table_uuid=str(run.plan.table.metadata.table_uuid),
        batch=batch,
        data_files=written.data_files,
        pending_dead_letters=owed,
        summary=summary_of(run, written),
    )


def _log_written(run: BatchRun, written: Written, request: CommitRequest) -> None:
    """From here on another run can commit these files without reading Kafka."""
    run.log(
        ParquetWritten(
            data_files=written.data_files,
            dead_letter_files=written.dead_letter_files,
            rows=total(written.balances.values()).rows,
            bytes_read=written.bytes_read,
            file_bytes=written.file_bytes,
            balances=written.balances,
            summary=request.summary,
        )
    )


def _commit(run: BatchRun, request: CommitRequest) -> Committed:
    connections = run.connections
    committed = commit_batch(connections.open_catalog, request, connections.fail_points)
    connections.fail_points.reach("drain.after-commit")
    run.log(IcebergSnapshotCreated(committed.snapshot_id, connections.run_id, connections.now_us()))
    return committed


def _commit_dead_letters(run: BatchRun, request: CommitRequest, committed: Committed) -> int | None:
    """The data commit has promised them: if this fails, recovery finishes it before any new batch."""
    connections = run.connections
    owed = commit_dead_letters(
        connections.open_catalog,
        request.identifier,
        committed.progress,
        request.summary,
        connections.fail_points,
    )
    connections.fail_points.reach("drain.after-dead-letters")
    return owed.snapshot_id if owed else None


def _result(run: BatchRun, written: Written, request: CommitRequest, snapshot_id: int) -> BatchResult:
    batch = run.plan.batch
    through = request.summary.get("sluice.valid-through")
    return BatchResult(
        batch_id=batch.batch_id,
        attempt=batch.attempt,
        snapshot_id=snapshot_id,
        ranges=str(batch.ranges),
        balance=total(written.balances.values()),
        bytes_read=written.bytes_read,
        data_files=len(written.data_files),
        file_bytes=written.file_bytes,
        valid_through_ms=int(through) if through is not None else None,
        durations_ms=run.steps.durations_ms,
        cpu_us=written.cpu_us,
        peak_task_rss_bytes=written.peak_task_rss_bytes,
    )
