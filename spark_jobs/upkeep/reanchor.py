"""Making main the anchor again after upkeep made snapshots: expiry may then cut the chain between them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from spark_jobs.commit.batch_commit import commit_change
from spark_jobs.connections.tables import load_fresh
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.batch import Batch, BatchKind
from spark_jobs.protocol.commit_summary import actor_summary
from spark_jobs.protocol.offsets import OffsetRanges

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections
    from spark_jobs.protocol.progress import Progress


def reanchor(
    identifier: str,
    connections: Connections,
    change: Callable[[Progress], Progress] = lambda progress: progress,
) -> None:
    """Give the table an empty snapshot of ours when main is not its anchor, or when ``change`` says more.

    Raises ``SourceChanged`` when main does not descend from the anchor by our commits and by compaction:
    nothing is then taken for granted anew. Safe to repeat and beside drains. A table that does not exist is
    left alone.
    """
    table = load_fresh(connections, identifier)
    if table is None:
        return
    progress = progress_of(table)
    if progress.anchor == table.metadata.current_snapshot_id and change(progress) == progress:
        return
    summary = actor_summary(connections.actor, connections.run_id)
    commit_change(
        connections.open_catalog,
        _batch(table, progress, connections),
        change,
        summary,
        connections.fail_points,
    )


def _batch(table: Table, progress: Progress, connections: Connections) -> Batch:
    return Batch(
        pipeline="",
        table=".".join(table.name()),
        topic=progress.topic,
        generation=progress.generation,
        ranges=OffsetRanges(()),
        attempt=uuid.uuid4().hex,
        ingested_at_us=connections.now_us(),
        kind=BatchKind.REANCHOR,
        epoch=progress.replay_epoch,
    )
