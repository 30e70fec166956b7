"""Records as an archive has them, read back in the order of their partition with bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.kafka.chunks import Chunk
from spark_jobs.lake.file_rows import rows_of_file
from spark_jobs.lake.row_filters import is_in_range
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.schema.archive_columns import HEADERS, KAFKA, KEY, RAW, VALUE
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.metadata_columns import IDENTITY, OFFSET

if TYPE_CHECKING:
    from pyiceberg.table import Table

_SELECTED = (f"{KEY}.{RAW}", f"{VALUE}.{RAW}", HEADERS, f"{KAFKA}.event_timestamp_ms", *IDENTITY)
NO_TIMESTAMP = -1
MAX_WINDOW_OFFSETS = 500_000
WINDOW_BYTES = 64 << 20
_MOST_PACKED = 16  # times as many bytes as in a file, more where they repeat much
_CHUNK_RECORDS = 1_000  # of which there are Python objects


def archived_chunks(table: Table, offsets: OffsetRange, generation: int) -> Iterator[Iterator[Chunk]]:
    """Yield the records of these offsets in order, window by window: windows that fit into some 64 MiB."""
    start, width = offsets.start, _first_width(table, offsets, generation)
    while start < offsets.end:
        window = OffsetRange(offsets.partition, start, min(start + width, offsets.end))
        rows = _rows(table, window, generation)
        yield _chunks(window.partition, rows)
        start = window.end
        width = max(1, min(MAX_WINDOW_OFFSETS, width * WINDOW_BYTES // max(1, 2 * rows.nbytes), width * 4))


def _first_width(table: Table, offsets: OffsetRange, generation: int) -> int:
    """Return a window that fits by what files have for a record; every window unpacks them once more."""
    files = [task.file for task in table.scan(is_in_range(offsets, generation)).plan_files()]
    packed, records = sum(each.file_size_in_bytes for each in files), sum(each.record_count for each in files)
    return max(1, min(MAX_WINDOW_OFFSETS, WINDOW_BYTES * records // max(1, _MOST_PACKED * packed)))


def offset_of_record(table: Table, offsets: OffsetRange, generation: int, number: int) -> int:
    """Return the offset of the record that so many come before; the end where there are no more."""
    left, start = number, offsets.start
    while start < offsets.end:
        window = OffsetRange(offsets.partition, start, min(start + MAX_WINDOW_OFFSETS, offsets.end))
        found = table.scan(is_in_range(window, generation), selected_fields=(OFFSET,)).to_arrow()
        if left < found.num_rows:
            return int(found.sort_by(OFFSET).column(OFFSET)[left].as_py())
        left -= found.num_rows
        start = window.end
    return offsets.end


def count_records(table: Table, offsets: OffsetRange, generation: int) -> int:
    """Return how many records these are."""
    return int(table.scan(is_in_range(offsets, generation)).count())


def _rows(table: Table, window: OffsetRange, generation: int) -> pa.Table:
    inside = is_in_range(window, generation)
    scan = table.scan(inside, selected_fields=_SELECTED)
    schema = scan.projection()
    parts = [rows for task in scan.plan_files() for rows in rows_of_file(scan.io, task, schema, inside)]
    found = pa.concat_tables(parts or [arrow_schema(schema).empty_table()])
    is_sorted = (np.diff(found.column(OFFSET).to_numpy()) > 0).all()
    return found if is_sorted else found.sort_by(OFFSET)


def _chunks(partition: int, rows: pa.Table) -> Iterator[Chunk]:
    for batch in filter(len, rows.to_batches(_CHUNK_RECORDS)):
        headers = batch.column(HEADERS).to_pylist()
        times = pc.fill_null(pc.struct_field(batch.column(KAFKA), "event_timestamp_ms"), NO_TIMESTAMP)
        yield Chunk(
            partition,
            batch.column(OFFSET).to_pylist(),
            times.to_pylist(),
            pc.struct_field(batch.column(KEY), RAW).to_pylist(),
            pc.struct_field(batch.column(VALUE), RAW).to_pylist(),
            [[(one["key"], one["value"]) for one in each] if each else None for each in headers],
        )
