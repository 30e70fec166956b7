"""Which snapshot was main at a moment, also one that was rolled back since: for reading as of then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.lake.moments import Moment, iso_of_ms
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.errors import ConfigError

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def snapshot_at(table: Table, moment: Moment) -> Snapshot:
    """Return the snapshot of that id, or the one that was main at that time.

    Raises ``ConfigError``: ``no-history`` on a catalog that shows the newest snapshot only,
    ``no-such-snapshot`` when it has expired or never was.
    """
    wanted = moment.snapshot_id if moment.snapshot_id is not None else _main_at(table, moment.at_ms or 0)
    snapshot = table.metadata.snapshot_by_id(wanted) if wanted is not None else None
    if snapshot is not None:
        return snapshot
    if not keeps_history(table):
        raise ConfigError(
            "the catalog shows the table's newest snapshot only: it keeps no history, or all have expired",
            code="no-history",
            hint="It works on catalogs that keep history, as SQLite and Iceberg's own REST server do.",
            table=".".join(table.name()),
        )
    oldest = min(table.metadata.snapshots, key=lambda kept: kept.timestamp_ms)
    raise ConfigError(
        "the table has no snapshot of that id or time: it has expired, or never was",
        code="no-such-snapshot",
        hint=f"The oldest one kept is {oldest.snapshot_id} of {iso_of_ms(oldest.timestamp_ms)}.",
        table=".".join(table.name()),
    )


def keeps_history(table: Table) -> bool:
    """True if there is more than the newest of several commits."""
    return len(table.metadata.snapshots) > 1 or not progress_of(table).last_commits


def _main_at(table: Table, at_ms: int) -> int | None:
    earlier = [entry for entry in table.metadata.snapshot_log if entry.timestamp_ms <= at_ms]
    return earlier[-1].snapshot_id if earlier else None
