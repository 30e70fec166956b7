"""Snapshot expiry by count and age, by Iceberg's procedure; branches and tags are kept.

Progress is in the table's properties and the books are a table of their own: nothing of Sluice's is lost with
a snapshot.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spark_jobs.config.sections import UpkeepSettings
from spark_jobs.protocol.texts import count
from spark_jobs.upkeep.figures import TableFigures
from spark_jobs.upkeep.kind import State, UpkeepKind, UpkeepOutcome

if TYPE_CHECKING:
    from spark_jobs.upkeep.table_work import TableWork

# Expiring one snapshot a minute would be a Spark job a minute: let some more come together first.
SNAPSHOT_SLACK_SHARE = 0.2
SNAPSHOT_AGE_SLACK_SHARE = 0.1


def find_reason(state: State) -> str | None:
    """Return the reason to expire snapshots, or None; with slack, so that a job is worthwhile."""
    reasons = (_reason(figures, state.settings, state.now_ms) for figures in state.collectable)
    return next(filter(None, reasons), None)


def expire_snapshots(work: TableWork) -> UpkeepOutcome:
    """Expire snapshots beyond ``upkeep.keep_snapshots`` or older than ``upkeep.keep_snapshots_for``.

    Files that no other snapshot names go with them; a query that reads an expired snapshot may fail.
    """
    if work.figures.keeps_garbage:
        return UpkeepOutcome(
            note="gc.enabled is false: snapshots stay, unless the catalog expires them itself"
        )
    from spark_jobs.health.table_facts import main_history  # noqa: PLC0415  (the sensor asks only what is due)

    times_ms = [snapshot.timestamp_ms for snapshot in reversed(main_history(work.table))]
    cutoff_ms = expiry_cutoff_ms(times_ms, work.settings, work.connections.now_us() // 1000)
    if cutoff_ms is None:
        return UpkeepOutcome(note="no snapshot is beyond what is kept")
    # Expiry may cut the chain from main to the anchor, which is how a rollback is noticed.
    work.make_anchor()
    work.connections.fail_points.reach("expire.after-reanchor")
    work.say(f"{work.identifier}: expiring, {count(work.figures.snapshots, 'snapshot')}")
    cutoff = dt.datetime.fromtimestamp(cutoff_ms / 1000, dt.UTC)
    found = work.call("expire_snapshots", older_than=cutoff, retain_last=1)
    work.connections.fail_points.reach("expire.after-procedure")
    deleted = {name.removesuffix("_count"): number for name, number in found.items() if number}
    left = {snapshot.snapshot_id for snapshot in work.reload().metadata.snapshots}
    expired = sum(snapshot.snapshot_id not in left for snapshot in work.table.metadata.snapshots)
    return UpkeepOutcome({"expired_snapshots": expired, **deleted})


def expiry_cutoff_ms(newest_first_ms: Sequence[int], settings: UpkeepSettings, now_ms: int) -> int | None:
    """Return the time (exclusive) before which snapshots expire, by count or age; or None.

    ``newest_first_ms`` are the times of main's snapshots, its newest one first.
    """
    cutoff = now_ms - settings.keep_snapshots_for_seconds * 1000
    if len(newest_first_ms) > settings.keep_snapshots:
        cutoff = max(cutoff, newest_first_ms[settings.keep_snapshots - 1])
    is_any_before = any(at < cutoff for at in newest_first_ms[1:])
    return cutoff if is_any_before else None


KIND = UpkeepKind(
    "snapshots",
    place=2,
    effect="expires old ones",
    description="Expires old snapshots of `{table}` and deletes files that only they use.",
    find_reason=find_reason,
    tidy=expire_snapshots,
    fail_points=("expire.after-reanchor", "expire.after-procedure"),
)


def _reason(figures: TableFigures, settings: UpkeepSettings, now_ms: int) -> str | None:
    most = settings.keep_snapshots + max(1, int(settings.keep_snapshots * SNAPSHOT_SLACK_SHARE))
    if figures.expirable_snapshots >= most:
        return f"{figures.expirable_snapshots:,} snapshots, {settings.keep_snapshots:,} are kept"
    if figures.oldest_expirable_ms is None:
        return None
    age_seconds = (now_ms - figures.oldest_expirable_ms) / 1000
    if age_seconds > settings.keep_snapshots_for_seconds * (1 + SNAPSHOT_AGE_SLACK_SHARE):
        return f"the oldest snapshot is {age_seconds / 3600:,.0f} h old"
    return None
