"""Offsets of records: of files that no snapshot names yet, and of dead letters, wherever they are.

A data commit lands before that of its dead letters. Who looks in between, or after a run that died there,
would miss records that nobody lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

from spark_jobs.lake.kept_letters import leaving, read_letters
from spark_jobs.lake.row_filters import offsets_in
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.fences import still_owed
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.schema.metadata_columns import OFFSET, PARTITION

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table

    from spark_jobs.protocol.batch import WrittenFile
    from spark_jobs.protocol.progress import PendingDeadLetters
    from spark_jobs.storage.create_only import CreateOnlyStore


def dead_letter_offsets(
    table: Table, dead_letters: Table | None, generation: int, window: OffsetRange, state: CreateOnlyStore
) -> NDArray[np.int64]:
    """Return a window's dead letters, sorted; those that the table owes count as if they had come in."""
    offsets = np.empty(0, dtype=np.int64)
    if dead_letters is not None:
        offsets = offsets_in(dead_letters, window, generation)
    owed = owed_by(table, dead_letters)
    if owed is None:
        return np.sort(offsets)
    offsets = offsets[~leaving(state, owed).hold(window.partition, offsets)]
    back = [offsets_of(read_letters(state, kept, (PARTITION, OFFSET)), window) for kept in owed.returned]
    back = [each[~np.isin(each, offsets)] for each in back]
    return np.sort(np.concatenate([offsets, *back, offsets_in_files(table.io, owed.files, window)]))


def owed_by(table: Table, dead_letters: Table | None) -> PendingDeadLetters | None:
    """Return what the table owes its dead-letter table until it is in, with the files that are still there.

    One that was purged with a dropped dead-letter table is not: its records are missing.
    """
    owed = still_owed(progress_of(table), None if dead_letters is None else progress_of(dead_letters))
    if owed is None:
        return None
    return replace(owed, files=tuple(file for file in owed.files if table.io.new_input(file.path).exists()))


def offsets_in_files(io: FileIO, files: Iterable[WrittenFile], window: OffsetRange) -> NDArray[np.int64]:
    """Return the offsets of the window that written files hold, in their order. Raises ``OSError``."""
    found = [np.empty(0, dtype=np.int64)]
    for file in files:
        with io.new_input(file.path).open() as stream:
            rows = pq.read_table(stream, columns=[PARTITION, OFFSET])
        found.append(offsets_of(rows, window))
    return np.concatenate(found)


def offsets_of(rows: pa.Table, window: OffsetRange) -> NDArray[np.int64]:
    """Return the offsets of those rows that stand in the window, in their order."""
    partitions, offsets = (rows.column(name).to_numpy() for name in (PARTITION, OFFSET))
    inside: NDArray[np.int64] = offsets[
        (partitions == window.partition) & (offsets >= window.start) & (offsets < window.end)
    ]
    return inside
