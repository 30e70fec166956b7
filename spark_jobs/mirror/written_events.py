"""The events in a batch's files, as far as a fold is of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table import FileScanTask, Table

from spark_jobs.lake.data_files import to_scanned_file
from spark_jobs.lake.file_rows import rows_of_file
from spark_jobs.mirror.fold import FILE, FOLDED_COLUMNS, ROW
from spark_jobs.mirror.identity import each_once
from spark_jobs.schema.arrow_schema import arrow_schema, no_rows
from spark_jobs.schema.iceberg_types import SOURCE
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

    from spark_jobs.protocol.batch import WrittenFile


def events_of(table: Table, files: Sequence[WrittenFile]) -> pa.Table:
    """Return what a fold is of, of every row of the files: its columns, its file in ``files``, its row there.

    Raises ``RetryableError`` when storage fails, ``ConfigError`` when it refuses.
    """
    there = [name for name in FOLDED_COLUMNS if name in table.schema().column_names]
    schema = table.schema().select(*there)
    return pa.concat_tables([_placed(no_rows(arrow_schema(schema)), 0, 0), *_parts(table, files, schema)])


def _parts(table: Table, files: Sequence[WrittenFile], schema: Schema) -> Iterator[pa.Table]:
    for number, file in enumerate(files):
        first = 0
        try:
            for rows in rows_of_file(table.io, FileScanTask(to_scanned_file(file)), schema):
                yield _placed(rows, number, first)
                first += len(rows)
        except OSError as error:
            raise storage_error(error, "reading a batch's events", file=file.path) from error


def _placed(rows: pa.Table, number: int, first: int) -> pa.Table:
    if SOURCE in rows.column_names:  # one text for all
        encoded = pc.dictionary_encode(rows.column(SOURCE))
        rows = rows.set_column(rows.column_names.index(SOURCE), SOURCE, encoded)
    placed = rows.append_column(FILE, pa.array(np.full(len(rows), number, np.int32)))
    return placed.append_column(ROW, pa.array(np.arange(first, first + len(rows))))


def in_file_order(events: pa.Table) -> pa.Table:
    """Return the events by file and row."""
    return events.take(pa.array(np.lexsort([events.column(ROW).to_numpy(), events.column(FILE).to_numpy()])))


def rows_at(table: Table, files: Sequence[WrittenFile], events: pa.Table, schema: Schema) -> pa.Table:
    """Return these columns of the events' rows, ``in_file_order``."""
    ordered = in_file_order(events)
    numbers, rows = ordered.column(FILE).to_numpy(), ordered.column(ROW).to_numpy()
    parts = [no_rows(arrow_schema(schema))]
    for number in each_once(numbers).tolist():
        parts += _taken(table, files[number], schema, rows[numbers == number])
    return pa.concat_tables(parts)


def _taken(table: Table, file: WrittenFile, schema: Schema, rows: np.ndarray) -> Iterator[pa.Table]:
    """Yield the rows at these positions of a file, which are in order."""
    first = 0
    for part in rows_of_file(table.io, FileScanTask(to_scanned_file(file)), schema):
        begin, end = np.searchsorted(rows, [first, first + len(part)])
        if begin < end:
            yield part.take(pa.array(rows[begin:end] - first))
        first += len(part)
