"""Processes dead letters again by today's configuration, without Kafka, at their own coordinates.

A batch goes through the six phases of a drain. Its data commit adds the rows, fenced like a replay by the
table's replay epoch; then exactly its letters leave the dead-letter table, and those that failed again come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.commit.batch_commit import overtaken
from spark_jobs.commit.pending_commit import commit_pending
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import load_drained
from spark_jobs.drain.batch_run import BatchResult, BatchRun, CommittedBatches, Tables
from spark_jobs.drain.dead_letter_source import DeadLetterSource
from spark_jobs.drain.drain_batch import drain_batch, plan_of
from spark_jobs.drain.planning import ONE_TASK_RECORDS
from spark_jobs.drain.table_columns import ensure_tables
from spark_jobs.lake.coordinates import Coordinates
from spark_jobs.lake.dead_letter_files import files_of, save_dead_letters, whole_dead_letters
from spark_jobs.lake.tables import dead_letters_of, evolve_table, progress_of
from spark_jobs.notices.sender import NoticeSender
from spark_jobs.protocol.batch import Split
from spark_jobs.protocol.commit_summary import actor_summary
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import SourceState, check_identity
from spark_jobs.protocol.works.redrive import REDRIVE
from spark_jobs.recovery.decide import RecoveryResult
from spark_jobs.replay.redrive_plan import BYTES, Selection, plan_redrive
from spark_jobs.replay.replay import settle_left_replays
from spark_jobs.schema.iceberg_types import PAST_FAILURES

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.connections.connect import Connections


@dataclass(frozen=True, slots=True)
class RedriveResult(CommittedBatches):
    """The result of a redrive, one commit per batch; ``left`` counts unsuitable dead letters by reason."""

    pipeline: str
    table: str
    batches: tuple[BatchResult, ...]
    left: dict[str, int]
    recovery: RecoveryResult


def redrive(
    pipeline: PipelineConfig,
    connections: Connections,
    wanted: Selection,
    *,
    reason: str,
    on_progress: Callable[[BatchResult, int, int], None] = lambda _batch, _done, _all: None,
) -> RedriveResult:
    """Turn the selected dead letters into rows where possible; the others get their new errors.

    ``on_progress`` gets each committed batch, the letters done and in all. Kafka is not asked. Safe beside
    drains and upkeep, and to repeat: killed anywhere, what was committed stays, and a second run does the
    rest. Raises what ``plan_redrive`` raises and every kind of ``SluiceError``; ``CommitConflict`` when a
    replay, another redrive or a rollback of the table came first.
    """
    recovery = settle_left_replays(pipeline, connections)
    tables = _tables(pipeline, connections)
    plan = plan_redrive(pipeline, tables.data, tables.dead_letters, wanted)
    batches: list[BatchResult] = []
    done = 0
    with NoticeSender(pipeline, connections) as notices:
        for part in plan.batches(pipeline.max_batch_records):
            if batches:
                tables = _tables(pipeline, connections)
            run = _plan_batch(pipeline, connections, tables, part, reason)
            expected = batches[-1].batch.epoch + 1 if batches else run.batch.epoch
            if run.batch.epoch != expected:
                raise overtaken(replace(run.batch, epoch=expected), progress_of(tables.data))
            batches.append(drain_batch(run)[0])
            notices.notify()
            done += len(part)
            on_progress(batches[-1], done, len(plan.letters))
    return RedriveResult(pipeline.name, pipeline.table, tuple(batches), plan.left, recovery)


def _tables(pipeline: PipelineConfig, connections: Connections) -> Tables:
    """Return the current tables: dead letters no older than the data, without pending changes."""
    source = _source(pipeline, progress_of(load_drained(pipeline, connections)))
    tables = ensure_tables(pipeline, connections, source, REDRIVE)
    if tables is None:
        raise AssertionError("the table existed a moment ago")
    progress = progress_of(tables.data)
    check_identity(progress, source, table=pipeline.table)
    who = actor_summary(connections.actor, connections.run_id)
    commit_pending(connections, pipeline.table, progress, who)
    columns = [((name,), kind) for name, kind, _ in PAST_FAILURES]
    letters = evolve_table(connections.open_catalog, dead_letters_of(pipeline.table), columns)
    return replace(tables, dead_letters=letters)


def _source(pipeline: PipelineConfig, progress: Progress) -> SourceState:
    """Return the topic as recorded in the table."""
    return SourceState(
        pipeline.topic, progress.topic_id, progress.cluster_id, end=dict(progress.next_offsets)
    )


def _plan_batch(
    pipeline: PipelineConfig, connections: Connections, tables: Tables, part: pa.Table, reason: str
) -> BatchRun:
    """Return a batch of these dead letters, which are stored whole before anything is done to them."""
    progress, letters = progress_of(tables.data), tables.dead_letters
    places = Coordinates.of_rows(part)
    source = _source(pipeline, progress)
    run = plan_of(pipeline, connections, tables, source, places.hull, work=REDRIVE, reason=reason)
    generation = progress.generation
    files = files_of(letters, places, generation)
    whole = whole_dead_letters(letters, places, generation)
    kept = save_dead_letters(connections.state, run.table_uuid, run.batch.attempt, whole)
    memory = connections.task_memory_bytes
    return replace(
        run,
        batch=replace(run.batch, letters=kept),
        splits=_splits(part, memory // 8, connections.parallelism),
        letters=DeadLetterSource(letters.io, letters.schema(), files, places, generation, memory),
    )


def _splits(part: pa.Table, max_bytes: int, parallelism: int) -> tuple[Split, ...]:
    """Split the dead letters into tasks of about equal bytes, each within a task's memory."""
    weights = np.cumsum(part.column(BYTES).to_numpy() + 1)
    count = -(-int(weights[-1]) // max(1, max_bytes))
    if count > 1 or len(part) > ONE_TASK_RECORDS:
        count = min(len(part), -(-count // max(1, parallelism)) * max(1, parallelism))
    cuts = np.searchsorted(weights, weights[-1] * np.arange(1, count) / count, side="right")
    bounds = np.unique([0, *cuts.tolist(), len(part)]).tolist()
    pieces = (part.slice(first, end - first) for first, end in pairwise(bounds))
    return tuple(Split(number, tuple(Coordinates.of_rows(piece).hull)) for number, piece in enumerate(pieces))
