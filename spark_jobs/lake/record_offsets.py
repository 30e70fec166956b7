"""Offsets of records, and rows of routed tables, including files that are not in a snapshot yet.

A data commit lands before those of its dead letters and routed rows. Who looks in between, or after a run
that died there, would miss records that nobody lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
from pyiceberg.expressions import Not
from pyiceberg.table import FileScanTask, Table

from spark_jobs.lake.coordinates import Coordinates
from spark_jobs.lake.data_files import to_scanned_file
from spark_jobs.lake.dead_letter_files import leaving
from spark_jobs.lake.file_rows import NOTHING_PENDING, PendingRows, scan_schema, stream
from spark_jobs.lake.row_filters import is_at, is_in_range, offsets_in
from spark_jobs.lake.tables import data_location, progress_of
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.source import still_pending, still_pending_to
from spark_jobs.schema.iceberg_types import OFFSET, PARTITION
from spark_jobs.storage.errors import storage_error
from spark_jobs.storage.paths import is_inside

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyiceberg.io import FileIO

    from spark_jobs.protocol.batch import WrittenFile
    from spark_jobs.protocol.progress import PendingDeadLetters
    from spark_jobs.storage.create_only import CreateOnlyStore


def dead_letter_offsets(
    table: Table, dead_letters: Table | None, generation: int, window: OffsetRange, state: CreateOnlyStore
) -> NDArray[np.int64]:
    """Return a window's dead letters, sorted; pending ones count as if they were committed."""
    offsets = np.empty(0, dtype=np.int64)
    if dead_letters is not None:
        offsets = offsets_in(dead_letters, window, generation)
    pending = pending_by(table, dead_letters)
    if pending is None:
        return np.sort(offsets)
    offsets = offsets[~leaving(state, pending).hold(window.partition, offsets)]
    return np.sort(np.concatenate([offsets, offsets_in_files(table.io, pending.files, window)]))


def pending_by(table: Table, dead_letters: Table | None) -> PendingDeadLetters | None:
    """Return the pending dead letters of a table, with the files that still exist.

    One that was purged with a dropped dead-letter table is not: its records are missing. Raises as
    ``storage_error`` where the storage does not say, and ``letters-to-return`` where a rollback of an earlier
    version, which put dead letters back that redrives had taken out, was cut off before they were there.
    """
    pending = still_pending(progress_of(table), None if dead_letters is None else progress_of(dead_letters))
    if pending is None:
        return None
    if pending.returned:
        raise fault("letters-to-return", table=".".join(table.name()))
    return replace(pending, files=_still_there(table, pending.files))


def pending_to(table: Table, name: str, routed: Table) -> PendingDeadLetters | None:
    """Return the pending rows for a routed table, as ``pending_by`` does.

    A file that was written for an earlier table of the name is left out: it is copied before it counts.
    """
    pending = still_pending_to(progress_of(table), name, progress_of(routed))
    if pending is None:
        return None
    folder = data_location(routed)
    files = (each for each in pending.files if is_inside(each.path, folder))
    return replace(pending, files=_still_there(table, files))


def _still_there(table: Table, files: Iterable[WrittenFile]) -> tuple[WrittenFile, ...]:
    try:
        return tuple(file for file in files if table.io.new_input(file.path).exists())
    except OSError as error:
        raise storage_error(error, "looking for files to come in", table=".".join(table.name())) from error


def as_read(pending: PendingDeadLetters | None, generation: int, gone: Iterable[OffsetRange]) -> PendingRows:
    """Return pending rows as a table's readers see them; existing rows at ``gone`` are removed."""
    places = Coordinates.of(gone)
    if pending is None and not places.ranges:
        return NOTHING_PENDING
    files = () if pending is None else pending.files
    return PendingRows(
        Not(is_at(places, generation)), tuple(FileScanTask(to_scanned_file(file)) for file in files)
    )


def routed_rows(table: Table, routed: Mapping[str, Table], window: OffsetRange) -> dict[str, pa.Table]:
    """Return a window's rows by routed table, in its columns, with the pending ones."""
    generation = progress_of(table).generation
    inside = is_in_range(window, generation)
    found = {}
    for name, each in routed.items():
        pending = pending_to(table, name, each)
        gone = pending.ranges if pending is not None and pending.replaces else ()
        scan = each.scan(inside)
        found[name] = stream(scan, scan_schema(scan), as_read(pending, generation, gone)).read_all()
    return found


def offsets_in_files(io: FileIO, files: Iterable[WrittenFile], window: OffsetRange) -> NDArray[np.int64]:
    """Return the window's offsets in written files, in order. Raises ``OSError``."""
    found = [np.empty(0, dtype=np.int64)]
    for file in files:
        with io.new_input(file.path).open() as stream:
            rows = pq.read_table(stream, columns=[PARTITION, OFFSET])
        found.append(offsets_of(rows, window))
    return np.concatenate(found)


def offsets_of(rows: pa.Table, window: OffsetRange) -> NDArray[np.int64]:
    """Return the offsets of rows within the window, in order."""
    partitions, offsets = (rows.column(name).to_numpy() for name in (PARTITION, OFFSET))
    inside: NDArray[np.int64] = offsets[
        (partitions == window.partition) & (offsets >= window.start) & (offsets < window.end)
    ]
    return inside
