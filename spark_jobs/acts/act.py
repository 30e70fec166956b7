"""An operator's act: an empty commit that changes a table's progress, logged with who did it and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from spark_jobs import __version__
from spark_jobs.commit.batch_commit import ChangeCommit, batch_of_change
from spark_jobs.commit.landing import Intent, land
from spark_jobs.drain.batch_run import Steps
from spark_jobs.protocol.batch import Batch, BatchKind
from spark_jobs.protocol.commit_summary import actor_summary
from spark_jobs.protocol.offsets import NO_RANGES, OffsetRanges
from spark_jobs.protocol.progress import Progress
from spark_jobs.schema.additions import refuse_newer_format
from spark_jobs.txlog.entries import Entry, FlushComplete, IcebergSnapshotCreated, OffsetCommit

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.commit.landing import Committed
    from spark_jobs.connections.connect import Connections


class ActIntent(Intent, Protocol):
    """What an act lands, under the name of a batch without files."""

    @property
    def batch(self) -> Batch:
        """The batch by whose name it is committed and logged."""


def act(
    pipeline_name: str,
    table: Table,
    connections: Connections,
    kind: BatchKind,
    *,
    reason: str,
    change: Callable[[Progress], Progress],
    ranges: OffsetRanges = NO_RANGES,
) -> Committed:
    """Land ``change`` of the table's progress in an empty snapshot of its own.

    ``change`` is asked again after every conflict and raises when it does not fit the table any more.
    ``ranges`` are the offsets the act speaks of. Raises ``CommitStateUnknown`` when the outcome could not be
    established (look, then do it again: acts are safe to repeat) and what ``change`` raises.
    """
    batch = batch_of_act(pipeline_name, table, connections, kind, ranges)
    change_commit = ChangeCommit(batch, change, summary_of_act(connections, reason))
    return land_act(connections, table, change_commit, reason)


def batch_of_act(
    pipeline_name: str,
    table: Table,
    connections: Connections,
    kind: BatchKind,
    ranges: OffsetRanges = NO_RANGES,
) -> Batch:
    """Return the batch by whose name the act is committed and logged."""
    attempt, now_us = connections.new_attempt(), connections.now_us()
    return batch_of_change(table, kind, pipeline=pipeline_name, attempt=attempt, now_us=now_us, ranges=ranges)


def summary_of_act(connections: Connections, reason: str) -> dict[str, str]:
    """Return what the act's commit says of who does it and why."""
    return actor_summary(connections.actor, connections.run_id, version=__version__, reason=reason)


def land_act(connections: Connections, table: Table, intent: ActIntent, reason: str) -> Committed:
    """Land the act between the log's first and last word about it."""
    refuse_newer_format(table)
    batch, steps, table_uuid = intent.batch, Steps(), str(table.metadata.table_uuid)

    def log(entry: Entry) -> None:
        connections.txlog.append(table_uuid, batch, entry)
        connections.fail_points.reach(f"act.after-{entry.phase.kebab}")

    begun = OffsetCommit(
        batch_id=batch.batch_id,
        spark_session_id=None,
        spark_tag=batch.attempt,
        actor=connections.actor,
        run_id=connections.run_id,
        sluice_version=__version__,
        started_at_us=batch.ingested_at_us,
        reason=reason,
    )
    log(begun)
    with steps.step("commit"):
        committed = land(connections, intent)
    log(IcebergSnapshotCreated(committed.snapshot_id, connections.run_id, connections.now_us()))
    log(FlushComplete(steps.durations_ms, None, connections.run_id, connections.now_us()))
    return committed
