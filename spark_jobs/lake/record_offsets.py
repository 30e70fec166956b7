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

from spark_jobs.lake.row_filters import offsets_in
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.fences import still_owed
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.schema.metadata_columns import OFFSET, PARTITION

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table

    from spark_jobs.protocol.batch import WrittenFile
    from spark_jobs.protocol.progress import PendingDeadLetters


def dead_letter_offsets(
    table: Table, dead_letters: Table | None, generation: int, window: OffsetRange
) -> NDArray[np.int64]:
    """Return a window's dead letters, sorted; those that the table owes count as if they had come in."""
    offsets = np.empty(0, dtype=np.int64)
    if dead_letters is not None:
        offsets = offsets_in(dead_letters, window, generation)
    owed = owed_by(table, dead_letters)
    replaced = next((r for r in owed.ranges if r.partition == window.partition), None) if owed else None
    if owed is None or replaced is None:
        return np.sort(offsets)
    if owed.replaces:
        offsets = offsets[(offsets < replaced.start) | (offsets >= replaced.end)]
    return np.sort(np.concatenate([offsets, offsets_in_files(table.io, owed.files, window)]))


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
        partitions, offsets = (rows.column(name).to_numpy() for name in (PARTITION, OFFSET))
        is_inside = (partitions == window.partition) & (offsets >= window.start) & (offsets < window.end)
        found.append(offsets[is_inside])
    return np.concatenate(found)
