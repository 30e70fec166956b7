"""Dead letters whole, as their table has them: read where they stand, in the order of their offsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.lake.coordinates import of_generation
from spark_jobs.lake.file_rows import rows_of_file
from spark_jobs.lake.row_filters import is_in_span
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.metadata_columns import OFFSET, PARTITION
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table

    from spark_jobs.lake.coordinates import Coordinates


def letters_at(
    io: FileIO, files: Iterable[FileScanTask], schema: Schema, places: Coordinates, generation: int
) -> pa.Table:
    """Return the letters of these places in partition and offset order, one of each; all are held at once.

    Raises ``OSError`` when storage fails.
    """
    hull = is_in_span(places.hull, generation)
    found = [arrow_schema(schema).empty_table()]
    for task in files:
        for rows in rows_of_file(io, task, schema, hull):
            is_wanted = places.holds(rows) & of_generation(rows, generation)
            found.append(rows.filter(pa.array(is_wanted)))
    return first_of_each(pa.concat_tables(found))


def letters_of(table: Table, places: Coordinates, generation: int) -> pa.Table:
    """Return the letters of these places from their table as it was loaded, as ``letters_at``.

    Raises ``RetryableError`` when storage fails, ``ConfigError`` when it refuses.
    """
    try:
        return letters_at(table.io, files_of(table, places, generation), table.schema(), places, generation)
    except OSError as error:
        raise storage_error(error, "reading dead letters", table=".".join(table.name())) from error


def files_of(table: Table, places: Coordinates, generation: int) -> tuple[FileScanTask, ...]:
    """Return the files that may hold letters of these places."""
    return tuple(table.scan(is_in_span(places.hull, generation)).plan_files())


def first_of_each(rows: pa.Table) -> pa.Table:
    """Return the rows in partition and offset order, the first of those that stand at one place."""
    partitions, offsets = (rows.column(name).to_numpy() for name in (PARTITION, OFFSET))
    order = np.lexsort((offsets, partitions))
    partitions, offsets = partitions[order], offsets[order]
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = (np.diff(partitions) != 0) | (np.diff(offsets) != 0)
    return rows.take(pa.array(order[is_first]))
