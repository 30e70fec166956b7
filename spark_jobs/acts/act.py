"""An operator's act: an empty commit that changes a table's progress, logged with who did it and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs import __version__
from spark_jobs.commit.batch_commit import commit_change
from spark_jobs.drain.batch_run import Steps
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.batch import Batch
from spark_jobs.protocol.commit_summary import actor_summary
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.txlog.entries import FlushComplete, IcebergSnapshotCreated, OffsetCommit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.table import Table

    from spark_jobs.commit.landing import Committed
    from spark_jobs.connections.connect import Connections
    from spark_jobs.protocol.batch import BatchKind
    from spark_jobs.protocol.progress import Progress
    from spark_jobs.txlog.entries import Entry

NO_RANGES = OffsetRanges(())


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
    fail_points = connections.fail_points

    def commit(batch: Batch, summary: Mapping[str, str]) -> Committed:
        return commit_change(connections.open_catalog, batch, change, summary, fail_points)

    return logged_act(pipeline_name, table, connections, kind, reason=reason, commit=commit, ranges=ranges)


def logged_act(
    pipeline_name: str,
    table: Table,
    connections: Connections,
    kind: BatchKind,
    *,
    reason: str,
    commit: Callable[[Batch, Mapping[str, str]], Committed],
    ranges: OffsetRanges = NO_RANGES,
) -> Committed:
    """Do ``commit`` between the log's first and last word about it; its summary says who and why."""
    progress = progress_of(table)
    batch = Batch(
        pipeline=pipeline_name,
        table=".".join(table.name()),
        topic=progress.topic,
        generation=progress.generation,
        ranges=ranges,
        attempt=connections.new_attempt(),
        ingested_at_us=connections.now_us(),
        kind=kind,
        epoch=progress.replay_epoch,
    )
    steps, table_uuid = Steps(), str(table.metadata.table_uuid)

    def log(entry: Entry) -> None:
        connections.txlog.append(table_uuid, batch, entry)
        connections.fail_points.reach(f"act.after-{entry.phase.kebab}")

    log(_begun(batch, connections, reason))
    summary = actor_summary(connections.actor, connections.run_id, version=__version__, reason=reason)
    with steps.step("commit"):
        committed = commit(batch, summary)
    log(IcebergSnapshotCreated(committed.snapshot_id, connections.run_id, connections.now_us()))
    log(FlushComplete(steps.durations_ms, None, connections.run_id, connections.now_us()))
    return committed


def _begun(batch: Batch, connections: Connections, reason: str) -> OffsetCommit:
    return OffsetCommit(
        batch_id=batch.batch_id,
        spark_session_id=None,
        spark_tag=batch.attempt,
        actor=connections.actor,
        run_id=connections.run_id,
        sluice_version=__version__,
        started_at_us=batch.ingested_at_us,
        reason=reason,
    )
