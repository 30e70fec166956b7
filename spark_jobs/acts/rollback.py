"""Rollback of a table: rows and offsets together, in one commit, so that the next drain refills it.

Of what was committed since, the rows go with this commit and the dead letters with the one it owes; the log
and the books keep it as history. Drains and replays that were planned before are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from spark_jobs.acts.act import batch_of_act, land_act, summary_of_act
from spark_jobs.acts.changes import Rewind, plan_rewind, rewind_progress
from spark_jobs.acts.past_states import EarlierState, snapshot_at, state_at
from spark_jobs.commit.anchor import check_properties
from spark_jobs.commit.batch_commit import BatchIntent
from spark_jobs.commit.pending_commit import commit_pending
from spark_jobs.commit.swap import Swap, stage_rewind
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import load_drained
from spark_jobs.lake.tables import progress_of
from spark_jobs.notices.sender import send_pending
from spark_jobs.protocol.cdc import Cdc
from spark_jobs.protocol.commit_summary import actor_summary, batch_summary
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.protocol.progress_parts import UNKNOWN, shapes_after_replay
from spark_jobs.protocol.source import SourceState, check_identity
from spark_jobs.protocol.works.changes import ROLLBACK
from spark_jobs.schema.iceberg_types import type_text

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.commit.swap import CatalogAccess
    from spark_jobs.connections.connect import Connections


@dataclass(frozen=True, slots=True)
class RolledBack:
    """``undone`` will be drained again, except ``lost``, which Kafka no longer has (``--force``)."""

    to_snapshot_id: int
    snapshot_id: int
    undone: OffsetRanges
    lost: OffsetRanges
    next_offsets: dict[int, int]


def rollback(
    pipeline: PipelineConfig,
    connections: Connections,
    *,
    to_snapshot: int | None = None,
    to_time_ms: int | None = None,
    reason: str,
    force: bool = False,
) -> RolledBack:
    """Set table and offsets back to a snapshot, or to the last one at a time (ms since the epoch).

    Also takes over a rollback that another tool made, when it names that snapshot. Raises ``ConfigError`` for
    a snapshot that cannot be gone back to, ``OffsetsUnavailable`` (``cannot-refill``) without ``force`` when
    Kafka lacks some of what goes, ``CorruptLog`` when the table's properties were set by hand,
    ``SourceChanged`` and what a commit raises. A drain that commits meanwhile is rolled back with the rest.
    """
    table = load_drained(pipeline, connections)
    to_snapshot = snapshot_at(table, to_time_ms or 0) if to_snapshot is None else to_snapshot
    source = connections.admin.source_state(pipeline.topic)
    _, planned = _plan(pipeline, table, to_snapshot, source, force=force)
    batch = batch_of_act(pipeline.name, table, connections, ROLLBACK, planned.undone)
    summary = summary_of_act(connections, reason)
    intent = _RollbackCommit(batch, pipeline, to_snapshot, source, summary, reason, force)
    committed = land_act(connections, table, intent, reason)
    who = actor_summary(connections.actor, connections.run_id)
    commit_pending(connections, pipeline.table, committed.progress, who)
    send_pending(pipeline, connections)
    undone = committed.progress.ranges_of(batch.attempt)
    next_offsets = committed.progress.next_offsets
    return RolledBack(to_snapshot, committed.snapshot_id, undone, undone.before(source.low), next_offsets)


@dataclass(frozen=True)
class _RollbackCommit(BatchIntent):
    """Main and progress set back to a snapshot; planned again for every table it is staged on."""

    pipeline: PipelineConfig
    to_snapshot: int
    source: SourceState
    summary: Mapping[str, str]
    reason: str
    force: bool
    fail_point: ClassVar[str] = "rollback"

    def stage(self, table: Table, connections: CatalogAccess) -> Swap:
        """Stage it on the table just loaded."""
        earlier, rewind = _plan(self.pipeline, table, self.to_snapshot, self.source, force=self.force)
        progress = progress_of(table)
        commit_pending(connections, self.identifier, progress, self.summary)
        # What a replay has made is as before again, and no snapshot says how that was made.
        shaped_by = shapes_after_replay(progress.shaped_by, UNKNOWN, earlier.replayed_since)
        progress = replace(progress, shaped_by=shaped_by)
        last = earlier.last_drain, earlier.last_drain_offsets
        back = rewind_progress(progress, rewind, *last, attempt=self.attempt, reason=self.reason)
        if progress.cdc is not None:
            back = replace(back, cdc=earlier.cdc or Cdc())
        if earlier.is_before_retype:
            back = replace(back, kept_columns=tuple(each.reopen() for each in back.kept_columns))
        recorded = back.with_attempt(self.attempt, rewind.undone)
        full = {**self.summary, **batch_summary(replace(self.batch, ranges=rewind.undone))}
        return stage_rewind(table, self.to_snapshot, recorded, full)


def _plan(
    pipeline: PipelineConfig, table: Table, to_snapshot: int, source: SourceState, *, force: bool
) -> tuple[EarlierState, Rewind]:
    check_properties(table)
    progress = progress_of(table)
    check_identity(progress, source, table=pipeline.table)
    earlier = state_at(table, to_snapshot)
    if table.metadata.current_snapshot_id == earlier.snapshot_id == progress.anchor:
        raise fault("nothing-to-roll-back", **pipeline.where)
    if earlier.generation != progress.generation:
        generation = progress.generation
        raise fault("earlier-generation", then=earlier.generation, generation=generation, **pipeline.where)
    if earlier.replays_since and not force:
        raise fault(
            "replayed-since",
            replays=", ".join(earlier.replays_since),
            again=progress.table_layout.read_again(pipeline.name, " ".join(map(str, earlier.replayed_since))),
            **pipeline.where,
        )
    if earlier.redrives_since:
        raise fault("redriven-since", count=earlier.redrives_since, **pipeline.where)
    if earlier.is_before_retype and not force:
        retyped = _retyped_since(table, to_snapshot)
        columns, name = ", ".join(retyped), next(iter(retyped))
        types = {field.name: type_text(field.field_type) for field in table.schema().fields}
        raise fault(
            "retyped-since",
            columns=columns,
            name=name,
            type=types.get(name, "TYPE"),  # another writer may have removed the column
            **pipeline.where,
        )
    rewind = plan_rewind(progress, earlier.next_offsets, source)
    if rewind.lost and not force:
        raise fault("cannot-refill", lost=rewind.lost, **pipeline.where)
    return earlier, rewind


def _retyped_since(table: Table, snapshot_id: int) -> list[str]:
    """Return the columns whose type was changed after the snapshot; all such columns if that is unknown."""
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    schemas = {schema.schema_id: schema for schema in table.metadata.schemas}
    schema = schemas.get(snapshot.schema_id) if snapshot and snapshot.schema_id is not None else None
    names = schema.column_names if schema else ()
    kept = progress_of(table).kept_columns
    since = [each for each in kept if each.kept not in names] or kept
    return list(dict.fromkeys(each.column for each in since))
