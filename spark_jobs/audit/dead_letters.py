"""Where a table's dead letters are: in a table of their own, and for a moment only in what the table owes it.

A data commit lands before that of its dead letters. Who looks in between, or after a run that died there,
would miss records that nobody lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

from spark_jobs.connections.tables import load_fresh
from spark_jobs.lake.row_filters import offsets_in
from spark_jobs.lake.tables import dead_letters_of, progress_of
from spark_jobs.protocol.fences import still_owed
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.progress import PendingDeadLetters
from spark_jobs.schema.metadata_columns import OFFSET, PARTITION

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections

# A busy table is committed to every few seconds, and loaded in milliseconds.
_TRIES = 5


def both_tables(connections: Connections, identifier: str) -> tuple[Table | None, Table | None]:
    """A table and its dead letters as they stood together: nothing was committed to the table in between."""
    for _ in range(_TRIES):
        table = load_fresh(connections, identifier)
        dead_letters = load_fresh(connections, dead_letters_of(identifier))
        now = load_fresh(connections, identifier)
        if table is None or (now is not None and now.metadata_location == table.metadata_location):
            break
    return table, dead_letters


def dead_letter_offsets(
    table: Table, dead_letters: Table | None, generation: int, window: OffsetRange
) -> NDArray[np.int64]:
    """Sorted offsets of a window's dead letters, those that the table owes counted as if they had come in."""
    offsets = np.empty(0, dtype=np.int64)
    if dead_letters is not None:
        offsets = offsets_in(dead_letters, window, generation)
    there = None if dead_letters is None else progress_of(dead_letters)
    owed = still_owed(progress_of(table), there)
    replaced = next((r for r in owed.ranges if r.partition == window.partition), None) if owed else None
    if owed is None or replaced is None:
        return np.sort(offsets)
    if owed.replaces:
        offsets = offsets[(offsets < replaced.start) | (offsets >= replaced.end)]
    return np.sort(np.concatenate([offsets, *_offsets_owed(table, owed, window)]))


def _offsets_owed(table: Table, owed: PendingDeadLetters, window: OffsetRange) -> Iterator[NDArray[np.int64]]:
    # One that was purged with a dropped dead-letter table is not there: its records are missing.
    inputs = (table.io.new_input(file.path) for file in owed.files)
    for file in (each for each in inputs if each.exists()):
        with file.open() as stream:
            rows = pq.read_table(stream, columns=[PARTITION, OFFSET])
        partitions, offsets = (rows.column(name).to_numpy() for name in (PARTITION, OFFSET))
        is_inside = (partitions == window.partition) & (offsets >= window.start) & (offsets < window.end)
        yield offsets[is_inside]
