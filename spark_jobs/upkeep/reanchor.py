"""Making main the anchor again after upkeep made snapshots: expiry may then cut the chain between them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from spark_jobs.commit.batch_commit import ChangeCommit, batch_of_change
from spark_jobs.commit.landing import land
from spark_jobs.connections.tables import load_fresh
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.batch import BatchKind
from spark_jobs.protocol.commit_summary import actor_summary
from spark_jobs.protocol.progress import Progress

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections


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
    batch = batch_of_change(
        table, BatchKind.REANCHOR, pipeline="", attempt=uuid.uuid4().hex, now_us=connections.now_us()
    )
    land(connections, ChangeCommit(batch, change, summary))
