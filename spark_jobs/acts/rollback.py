"""Rolling a table back: rows and offsets together, in one commit, so that the next drain fills it again.

Of what was committed since, the rows go with this commit and the dead letters with the one it owes; the log
and the books keep it as history. Drains and replays that were planned before are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_jobs.acts.act import logged_act
from spark_jobs.acts.past_states import EarlierState, snapshot_at, state_at
from spark_jobs.acts.rewinding import Rewind, plan_rewind, refuse_lost, rewound
from spark_jobs.commit.anchor import check_properties
from spark_jobs.commit.dead_letter_commit import commit_dead_letters
from spark_jobs.commit.landing import Intent, land
from spark_jobs.commit.rewind import stage_rewind
from spark_jobs.connections.tables import load_drained
from spark_jobs.lake.tables import progress_of
from spark_jobs.notices.sender import tell_at_once
from spark_jobs.protocol import mends
from spark_jobs.protocol.batch import BatchKind
from spark_jobs.protocol.commit_summary import actor_summary, batch_summary
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.source import check_identity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table

    from spark_jobs.commit.landing import Committed
    from spark_jobs.commit.swap import Swap
    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections
    from spark_jobs.protocol.batch import Batch
    from spark_jobs.protocol.offsets import OffsetRanges
    from spark_jobs.protocol.source import SourceState


@dataclass(frozen=True, slots=True)
class RolledBack:
    """``undone`` will be drained again but for ``lost``, which Kafka has no more and ``--force`` gave up."""

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
    """Set table and offsets back to a snapshot, or to the last one at a time (milliseconds since the epoch).

    Also takes over a rollback that another tool made, when it names that snapshot. Raises ``ConfigError`` for
    a snapshot that cannot be gone back to, ``OffsetsUnavailable`` (``cannot-refill``) without ``force`` when
    Kafka lacks some of what goes, ``CorruptLog`` when the table's properties were set by hand,
    ``SourceChanged`` and what a commit raises. A drain that commits meanwhile is rolled back with the rest.
    """
    table = load_drained(pipeline, connections)
    to_snapshot = snapshot_at(table, to_time_ms or 0) if to_snapshot is None else to_snapshot
    source = connections.admin.source_state(pipeline.topic)
    planned = _plan(pipeline, table, to_snapshot, source, force=force)[1]
    done: list[Rewind] = []

    def commit(batch: Batch, summary: Mapping[str, str]) -> Committed:
        def stage(table: Table) -> Swap:
            earlier, rewind = _plan(pipeline, table, to_snapshot, source, force=force)
            done.append(rewind)
            progress = progress_of(table)
            commit_dead_letters(
                connections.open_catalog, pipeline.table, progress, summary, connections.fail_points
            )
            there = rewound(progress, rewind, earlier.last_drain, attempt=batch.attempt, reason=reason)
            starts, ends = rewind.undone.starts, rewind.undone.ends
            full = {**summary, **batch_summary(replace(batch, ranges=rewind.undone))}
            return stage_rewind(table, to_snapshot, there.recorded(batch.attempt, starts, ends), full)

        intent = Intent(pipeline.table, batch.attempt, "rollback", stage)
        return land(connections.open_catalog, intent, connections.fail_points)

    committed = logged_act(
        pipeline.name,
        table,
        connections,
        BatchKind.ROLLBACK,
        reason=reason,
        commit=commit,
        ranges=planned.undone,
    )
    summary = actor_summary(connections.actor, connections.run_id)
    commit_dead_letters(
        connections.open_catalog, pipeline.table, committed.progress, summary, connections.fail_points
    )
    tell_at_once(pipeline, connections)
    return RolledBack(
        to_snapshot, committed.snapshot_id, done[-1].undone, done[-1].lost, committed.progress.next_offsets
    )


def _plan(
    pipeline: PipelineConfig, table: Table, to_snapshot: int, source: SourceState, *, force: bool
) -> tuple[EarlierState, Rewind]:
    check_properties(table)
    progress = progress_of(table)
    check_identity(progress, source, table=pipeline.table)
    earlier = state_at(table, to_snapshot)
    _refuse_other_histories(pipeline, table, earlier)
    if earlier.replays_since and not force:
        raise ConfigError(
            f"rows were replaced since by replays: {', '.join(earlier.replays_since)}",
            code="replayed-since",
            hint="Going back would bring their old rows and keep their new dead letters. Choose a later"
            " snapshot, or add --force and replay those ranges again.",
            pipeline=pipeline.name,
            table=pipeline.table,
        )
    rewind = plan_rewind(progress, earlier.next_offsets, source)
    if not force:
        refuse_lost(rewind, pipeline=pipeline.name, table=pipeline.table)
    return earlier, rewind


def _refuse_other_histories(pipeline: PipelineConfig, table: Table, earlier: EarlierState) -> None:
    progress = progress_of(table)
    if table.metadata.current_snapshot_id == earlier.snapshot_id == progress.anchor:
        raise ConfigError(
            "the table is at that snapshot already",
            code="nothing-to-roll-back",
            hint=f"Choose an earlier one: {mends.command('history', pipeline.name)} lists them.",
            pipeline=pipeline.name,
            table=pipeline.table,
        )
    if earlier.generation != progress.generation:
        raise ConfigError(
            f"the snapshot is of generation {earlier.generation} and the topic of generation"
            f" {progress.generation} began since: what the table would have to read is not there any more",
            code="earlier-generation",
            hint="Choose a snapshot of this generation:"
            f" {mends.command('history', pipeline.name)} lists them.",
            pipeline=pipeline.name,
            table=pipeline.table,
        )
