"""Which missing offsets another writer took out of a table, as its kept snapshots show: DELETE, TTL.

A snapshot that is not ours and deletes is compared with the one before it, row by row of the window in
question: that is exact whatever the deletion looks like in files. Where the one before has expired nobody can
tell any more, and what is missing stays missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.checks.facts import Removal
from spark_jobs.health.table_facts import main_history, removals
from spark_jobs.lake.row_filters import offsets_in
from spark_jobs.protocol.offsets import OffsetRange

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.table import Table

    from spark_jobs.audit.row_place import Spot


def removed_by_others(
    tables: Iterable[Table], window: OffsetRange, generation: int, missing: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return those of the ``missing`` offsets that were in one of the tables until a foreign snapshot."""
    gone: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    for table in tables:
        for removal, before in _removals(table):
            was = offsets_in(table, window, generation, snapshot_id=before)
            left = offsets_in(table, window, generation, snapshot_id=removal.snapshot_id)
            gone.append(np.setdiff1d(was, left))
    return np.intersect1d(missing, np.concatenate(gone))


def removed_by(table: Table, spot: Spot) -> Removal | None:
    """Return the newest commit of another writer after which the row was gone that was there before it.

    None when it has expired, or the catalog shows no history.
    """

    def is_in(snapshot_id: int) -> bool:
        return table.scan(spot.filter, snapshot_id=snapshot_id).count() > 0

    for removal, before in reversed(list(_removals(table))):
        if is_in(before) and not is_in(removal.snapshot_id):
            return removal
    return None


def _removals(table: Table) -> Iterator[tuple[Removal, int]]:
    """Yield the commits of other writers that took rows out, and the snapshots before them that are kept."""
    history = main_history(table)
    before = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in history}
    for removal in removals(history):
        parent = before[removal.snapshot_id]
        if parent is not None and parent in before:
            yield removal, parent
