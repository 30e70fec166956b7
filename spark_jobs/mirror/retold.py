"""Whether what lies below a partition's furthest place was told before, or is of a log that began anew.

A connector that was killed tells its last changes again, each at the place that it had. The log of a backup,
or of a server that had not got as far, has other changes there. Times prove nothing: clocks differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import FileScanTask

from spark_jobs.lake.file_rows import rows_of_file
from spark_jobs.lake.row_filters import is_between
from spark_jobs.mirror.fold import Fate, Folded, compared
from spark_jobs.schema.change_columns import ROW_ID, SEQUENCE
from spark_jobs.schema.metadata_columns import PARTITION
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.table import Table


def first_new(folded: Folded, had: Callable[[pa.Table], NDArray[np.bool_]]) -> int | None:
    """Return the first event that counts as told again and is not known to be; None where all are.

    ``had`` says which events were told in earlier batches. A log has one history: what stands below an event
    that was told before, and comes before it, was told before as well, though its rows may be gone.
    """
    again = folded.fates == Fate.TOLD_AGAIN
    if not again.any():
        return None
    twins = _first_alike(folded.events)
    known = folded.is_where_it_stood | (again & ~again[twins])
    asked = np.flatnonzero(again & ~known)
    known[asked] = had(folded.events.take(pa.array(asked)))
    new = np.zeros(len(again), bool)
    for _, _, at in compared(folded.events, folded.cdc):
        reached = np.where(known[at], folded.ranks[at], -1)[::-1]
        new[at] = again[at] & (folded.ranks[at] > np.maximum.accumulate(reached)[::-1])
    return int(np.flatnonzero(new)[0]) if new.any() else None


def had_by(table: Table, events: pa.Table) -> NDArray[np.bool_]:
    """Return which events the table's files have, whatever became of their rows. Raises as storage does."""
    if not len(events):
        return np.zeros(0, bool)
    found: set[tuple[str, int]] = set()
    sequences = pc.unique(events.column(SEQUENCE))
    first, last = pc.min_max(sequences).as_py().values()
    between = is_between(SEQUENCE, first, last + 1)
    schema = table.schema().select(ROW_ID, SEQUENCE)
    try:
        for task in table.scan(between).plan_files():
            for rows in rows_of_file(table.io, FileScanTask(task.file), schema, between):
                there = rows.filter(pc.is_in(rows.column(SEQUENCE), events.column(SEQUENCE).combine_chunks()))
                found.update(_told_at(there))
    except OSError as error:
        raise storage_error(
            error, "looking for what was told before", table=".".join(table.name())
        ) from error
    return np.array([place in found for place in _told_at(events)])


def _told_at(rows: pa.Table) -> list[tuple[str, int]]:
    return [*zip(rows.column(ROW_ID).to_pylist(), rows.column(SEQUENCE).to_pylist(), strict=True)]


def _first_alike(events: pa.Table) -> NDArray[np.int64]:
    """Return by event the first one of its partition that has its key and sequence: perhaps itself."""
    keys = pc.dictionary_encode(events.column(ROW_ID)).combine_chunks().indices.to_numpy()
    columns = [events.column(SEQUENCE).to_numpy(), keys, events.column(PARTITION).to_numpy()]
    order = np.lexsort(columns)  # which leaves equal ones in their order
    is_first = np.append(True, np.any([np.diff(column[order]) != 0 for column in columns], axis=0))
    firsts = np.empty(len(order), np.int64)
    firsts[order] = order[is_first][np.cumsum(is_first) - 1]
    return firsts
