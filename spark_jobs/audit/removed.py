"""Which missing offsets another writer took out of a table, as its kept snapshots show: DELETE, TTL.

A snapshot that is not ours and deletes is compared with the one before it, row by row of the window in
question: that is exact whatever the deletion looks like in files. Where the one before has expired nobody can
tell any more, and what is missing stays missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.health.table_facts import main_history, removals
from spark_jobs.lake.row_filters import is_in_range
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.schema.metadata_columns import OFFSET

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.table import Table


def removed_by_others(
    tables: Iterable[Table], window: OffsetRange, generation: int, missing: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return those of the ``missing`` offsets that were in one of the tables until a foreign snapshot."""
    gone: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    for table in tables:
        for removal in removals(main_history(table)):
            snapshot = table.metadata.snapshot_by_id(removal.snapshot_id)
            parent = snapshot.parent_snapshot_id if snapshot else None
            if parent is None or table.metadata.snapshot_by_id(parent) is None:
                continue
            before = _offsets(table, parent, window, generation)
            gone.append(np.setdiff1d(before, _offsets(table, removal.snapshot_id, window, generation)))
    return np.intersect1d(missing, np.concatenate(gone))


def _offsets(table: Table, snapshot_id: int, window: OffsetRange, generation: int) -> NDArray[np.int64]:
    scan = table.scan(
        row_filter=is_in_range(window, generation), selected_fields=(OFFSET,), snapshot_id=snapshot_id
    )
    offsets: NDArray[np.int64] = scan.to_arrow().column(OFFSET).to_numpy()
    return offsets
