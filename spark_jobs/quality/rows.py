"""The rows a suite is judged on: those of files that are written, or those of committed offsets.

They come by partition and offset, so that the first that fail are the first there are: a scan has the newest
commit first. They are not read by PyIceberg's scan, which takes a null list of structs for an empty one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.expressions.parser import parse
from pyiceberg.table import FileScanTask

from spark_jobs.lake.data_files import to_data_file
from spark_jobs.lake.file_rows import ALWAYS_TRUE, rows_of_file
from spark_jobs.protocol.batch import WrittenFile
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.schema.arrow_schema import arrow_schema, no_rows
from spark_jobs.schema.metadata_columns import GENERATION, OFFSET, PARTITION
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table


def rows_of_files(table: Table, files: Sequence[WrittenFile], columns: Sequence[str]) -> pa.Table:
    """Return these columns of data files that no snapshot names yet.

    ``table`` is loaded after they were written: files of an earlier schema have nulls in columns added since.
    Raises ``RetryableError`` when storage fails, ``ConfigError`` when it refuses.
    """
    tasks = [FileScanTask(to_data_file(file, table.metadata)) for file in files]
    return _read(table, lambda: tasks, columns, ALWAYS_TRUE)


def rows_of_ranges(table: Table, ranges: OffsetRanges, generation: int, columns: Sequence[str]) -> pa.Table:
    """Return these columns of the rows with coordinates in the ranges. Raises as ``rows_of_files``."""
    parts = [
        f"({PARTITION} = {r.partition} and {OFFSET} >= {r.start} and {OFFSET} < {r.end})" for r in ranges
    ]
    inside = parse(f"{GENERATION} = {generation} and ({' or '.join(parts)})")
    return _read(table, table.scan(row_filter=inside).plan_files, columns, inside)


def _read(
    table: Table,
    plan: Callable[[], Iterable[FileScanTask]],
    columns: Sequence[str],
    row_filter: BooleanExpression,
) -> pa.Table:
    schema = table.schema().select(*columns, GENERATION, PARTITION, OFFSET)
    found = [no_rows(arrow_schema(schema))]
    try:
        for task in plan():
            found += rows_of_file(table.io, task, schema, row_filter)
    except OSError as error:
        raise storage_error(error, "reading the rows to judge", table=".".join(table.name())) from error
    rows = pa.concat_tables(found).sort_by([(PARTITION, "ascending"), (OFFSET, "ascending")])
    return rows.select(arrow_schema(table.schema().select(*columns)).names)
