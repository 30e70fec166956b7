"""A table's rows as a stream of Arrow batches: one file is open at a time, whatever the table's size.

PyIceberg's own reader hands every file to a pool at once and keeps what it decoded until somebody takes it,
which for a slow taker is the whole table. It also shows a null list of structs as an empty one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.expressions.visitors import bind, extract_field_ids
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from spark_jobs.lake.file_rows import rows_of_file

if TYPE_CHECKING:
    from pyiceberg.table import DataScan


def scan_schema(scan: DataScan) -> pa.Schema:
    """Return the Arrow schema of the scan's rows."""
    return schema_to_pyarrow(scan.projection(), include_field_ids=False)


def stream(scan: DataScan) -> pa.RecordBatchReader:
    """Return the scan's rows; a file is opened when the rows before it were taken."""
    schema = scan_schema(scan)
    return pa.RecordBatchReader.from_batches(schema, _batches(scan, schema))


def _batches(scan: DataScan, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    every = scan.update(selected_fields=("*",)).projection()
    asked = {field.field_id for field in scan.projection().fields}
    judged = extract_field_ids(bind(every, scan.row_filter, scan.case_sensitive))
    read = Schema(*(field for field in every.fields if field.field_id in asked | judged))
    for task in scan.plan_files():
        for rows in rows_of_file(scan.io, task, read, scan.row_filter):
            yield from rows.select(schema.names).cast(schema).to_batches()
