"""A table's rows as a stream of Arrow batches: one file is open at a time, whatever the table's size.

PyIceberg's own reader hands every file to a pool at once and keeps what it decoded until somebody takes it,
which for a slow taker is the whole table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import DataScan


def scan_schema(scan: DataScan) -> pa.Schema:
    """The Arrow schema of the scan's rows."""
    return schema_to_pyarrow(scan.projection(), include_field_ids=False)


def stream(scan: DataScan) -> pa.RecordBatchReader:
    """The scan's rows; a file is opened when the rows before it were taken."""
    schema = scan_schema(scan)
    return pa.RecordBatchReader.from_batches(schema, _batches(scan)).cast(schema)


def _batches(scan: DataScan) -> Iterator[pa.RecordBatch]:
    arrow_scan = ArrowScan(
        scan.table_metadata, scan.io, scan.projection(), scan.row_filter, case_sensitive=scan.case_sensitive
    )
    for task in scan.plan_files():
        if task.delete_files:
            yield from arrow_scan.to_record_batches([task])  # holds this one file
        else:
            # The public way makes a list of the file's batches first.
            yield from arrow_scan._record_batches_from_scan_tasks_and_deletes([task], {})  # noqa: SLF001
