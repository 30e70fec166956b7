"""Snapshot expiry by count and age, by Iceberg's own procedure; what a branch or tag holds stays.

Progress is in the table's properties and the books are a table of their own: nothing of Sluice's is lost with
a snapshot.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from spark_jobs.upkeep.conditions import UpkeepKind, expiry_cutoff_ms
from spark_jobs.upkeep.upkeep import Done, tidy_tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table

    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections
    from spark_jobs.upkeep.upkeep import TableWork, UpkeepResult


def expire_snapshots(
    pipeline: PipelineConfig, connections: Connections, *, say: Callable[[str], None] = lambda _line: None
) -> UpkeepResult:
    """Expire snapshots beyond ``upkeep.keep_snapshots`` or older than ``upkeep.keep_snapshots_for``.

    Files that no other snapshot names go with them; a query that reads an expired snapshot may fail. Safe to
    repeat and beside drains. Raises every kind of ``SluiceError``.
    """
    return tidy_tables(UpkeepKind.SNAPSHOTS, pipeline, connections, _expire, say)


def _expire(hand: TableWork) -> Done:
    if hand.figures.keeps_garbage:
        return Done(note="the catalog keeps history of its own (gc.enabled is false) and expires it itself")
    cutoff_ms = _cutoff_ms(hand, hand.table)
    if cutoff_ms is None:
        return Done(note="no snapshot is beyond what is kept")
    # Expiry may cut the chain from main to the anchor, which is how a rollback is noticed.
    hand.make_anchor()
    hand.connections.fail_points.reach("expire.after-reanchor")
    hand.say(f"{hand.identifier}: expiring, {hand.figures.snapshots:,} snapshots")
    found = hand.call(
        "expire_snapshots",
        older_than=dt.datetime.fromtimestamp(cutoff_ms / 1000, dt.UTC),
        retain_last=1,
    )
    hand.connections.fail_points.reach("expire.after-procedure")
    deleted = {name.removesuffix("_count"): number for name, number in found.items() if number}
    return Done({"expired_snapshots": _expired(hand), **deleted})


def _cutoff_ms(hand: TableWork, table: Table) -> int | None:
    return expiry_cutoff_ms(_main_times_ms(table), hand.settings, hand.connections.now_us() // 1000)


def _main_times_ms(table: Table) -> list[int]:
    """Times of main's snapshots, the newest first, as far as they are there."""
    times: list[int] = []
    snapshot = table.metadata.current_snapshot()
    while snapshot is not None:
        times.append(snapshot.timestamp_ms)
        parent = snapshot.parent_snapshot_id
        snapshot = table.metadata.snapshot_by_id(parent) if parent is not None else None
    return times


def _expired(hand: TableWork) -> int:
    left = {snapshot.snapshot_id for snapshot in hand.reload().metadata.snapshots}
    return sum(snapshot.snapshot_id not in left for snapshot in hand.table.metadata.snapshots)
