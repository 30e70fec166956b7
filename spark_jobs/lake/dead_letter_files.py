"""Stored dead letters under ``state:``: those a redrive removed, and a rollback restores.

Never under a table's location, where orphan removal deletes what no snapshot names. A file is named after its
attempt and the digest of what is in it, and never changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs.lake.coordinates import Coordinates, of_generation
from spark_jobs.lake.file_rows import rows_of_file
from spark_jobs.lake.row_filters import is_in_span
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.progress_parts import SavedDeadLetters
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.iceberg_types import OFFSET, PARTITION
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table

    from spark_jobs.protocol.progress import PendingDeadLetters
    from spark_jobs.storage.create_only import CreateOnlyStore, StoredFile


FOLDER = "letters"
_DIGITS = 32


def save_dead_letters(
    state: CreateOnlyStore, table_uuid: str, attempt: str, letters: pa.Table
) -> SavedDeadLetters:
    """Write dead letters; equal ones give the same file. Raises as the store does."""
    sink = pa.BufferOutputStream()
    pq.write_table(letters, sink, compression="zstd")
    content = sink.getvalue().to_pybytes()
    digest = hashlib.sha256(content).hexdigest()[:_DIGITS]
    name = f"{FOLDER}/{table_uuid}/{attempt}-{digest}.parquet"
    state.create(name, content)
    return SavedDeadLetters(name, len(letters))


def read_dead_letters(
    state: CreateOnlyStore, kept: SavedDeadLetters, columns: Sequence[str] | None = None
) -> pa.Table:
    """Return the dead letters, or these columns. Raises ``CorruptLog`` (``letters-lost``)."""
    content = state.read_bytes(kept.name)
    if content is None or hashlib.sha256(content).hexdigest()[:_DIGITS] != kept.digest:
        raise fault(
            "letters-lost" if content is None else "letters-lost.changed", file=f"{state.root}/{kept.name}"
        )
    return pq.read_table(pa.BufferReader(content), columns=columns and list(columns))


def leaving(state: CreateOnlyStore, pending: PendingDeadLetters) -> Coordinates:
    """Return coordinates of dead letters that a pending change removes. Raises as ``read_dead_letters``."""
    if pending.redriven is not None:  # it has no ranges
        return saved_coordinates(state, pending.redriven)
    return Coordinates.of(pending.ranges if pending.replaces else ())


def saved_coordinates(state: CreateOnlyStore, kept: SavedDeadLetters) -> Coordinates:
    """Return the dead letters' coordinates. Raises as ``read_dead_letters``."""
    return Coordinates.of_rows(read_dead_letters(state, kept, (PARTITION, OFFSET)))


def saved_files(state: CreateOnlyStore, table_uuid: str) -> list[StoredFile]:
    """Return all stored files of a table. Raises as the store does."""
    return state.list(f"{FOLDER}/{table_uuid}")


def is_needed(file: StoredFile, table: Table, unfinished: Collection[str]) -> bool:
    """True if a stored file may still be read: by a running command, or for a pending change.

    ``unfinished`` are attempts of the log, which was listed after the files and before the table was loaded.
    """
    attempt = file.name.rpartition("-")[0]
    pending = progress_of(table).pending_dead_letters
    named = (pending.redriven, *pending.returned) if pending else ()
    return attempt in unfinished or any(kept and kept.name.endswith(f"/{file.name}") for kept in named)


# Dead letters whole, as their table has them: read where they stand, in the order of their offsets.


def dead_letters_at(
    io: FileIO, files: Iterable[FileScanTask], schema: Schema, places: Coordinates, generation: int
) -> pa.Table:
    """Return the dead letters at these coordinates by partition and offset, unique; all in memory.

    Raises ``OSError`` when storage fails.
    """
    hull = is_in_span(places.hull, generation)
    found = [arrow_schema(schema).empty_table()]
    for task in files:
        for rows in rows_of_file(io, task, schema, hull):
            is_wanted = places.holds(rows) & of_generation(rows, generation)
            found.append(rows.filter(pa.array(is_wanted)))
    return first_of_each(pa.concat_tables(found))


def whole_dead_letters(table: Table, places: Coordinates, generation: int) -> pa.Table:
    """Return the dead letters at these coordinates from a loaded table, as ``dead_letters_at``.

    Raises ``RetryableError`` when storage fails, ``ConfigError`` when it refuses.
    """
    try:
        return dead_letters_at(
            table.io, files_of(table, places, generation), table.schema(), places, generation
        )
    except OSError as error:
        raise storage_error(error, "reading dead letters", table=".".join(table.name())) from error


def files_of(table: Table, places: Coordinates, generation: int) -> tuple[FileScanTask, ...]:
    """Return the files that may contain dead letters at these coordinates."""
    return tuple(table.scan(is_in_span(places.hull, generation)).plan_files())


def first_of_each(rows: pa.Table) -> pa.Table:
    """Return the rows by partition and offset, the first of each coordinate."""
    partitions, offsets = (rows.column(name).to_numpy() for name in (PARTITION, OFFSET))
    order = np.lexsort((offsets, partitions))
    partitions, offsets = partitions[order], offsets[order]
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = (np.diff(partitions) != 0) | (np.diff(offsets) != 0)
    return rows.take(pa.array(order[is_first]))
