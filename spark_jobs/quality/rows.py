"""The rows a suite is judged on: those of files that are written, or those of committed offsets.

They come by partition and offset, so that the first that fail are the first there are: a scan has the newest
commit first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask

from spark_jobs.core.errors import RetryableError
from spark_jobs.io.arrow_schema import arrow_schema
from spark_jobs.io.data_files import from_json
from spark_jobs.io.metadata_columns import GENERATION, OFFSET, PARTITION

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from pyiceberg.table import Table

    from spark_jobs.core.offsets import OffsetRanges


def rows_of_files(table: Table, files: Sequence[dict[str, Any]], columns: Sequence[str]) -> pa.Table:
    """These columns of data files (as ``data_files.to_json`` describes them) that no snapshot names yet.

    ``table`` is loaded after they were written: files of an earlier schema have nulls in columns added since.
    Raises ``RetryableError`` when storage fails.
    """
    schema = table.schema().select(*columns)
    if not files:
        return arrow_schema(schema).empty_table()
    tasks = [FileScanTask(from_json(file, table.metadata)) for file in files]
    scan = ArrowScan(table.metadata, table.io, schema, AlwaysTrue())
    return _typed(lambda: scan.to_table(tasks), arrow_schema(schema), table)


def rows_of_ranges(table: Table, ranges: OffsetRanges, generation: int, columns: Sequence[str]) -> pa.Table:
    """These columns of the rows whose coordinates lie in the ranges. Raises ``RetryableError``."""
    schema = table.schema().select(*columns)
    scan = table.scan(row_filter=_inside(ranges, generation), selected_fields=tuple(columns))
    return _typed(scan.to_arrow, arrow_schema(schema), table)


def _inside(ranges: OffsetRanges, generation: int) -> str:
    parts = [
        f"({PARTITION} = {r.partition} and {OFFSET} >= {r.start} and {OFFSET} < {r.end})" for r in ranges
    ]
    return f"{GENERATION} = {generation} and ({' or '.join(parts)})"


def _typed(read: Callable[[], pa.Table], schema: pa.Schema, table: Table) -> pa.Table:
    try:
        rows = read()
    except OSError as error:
        raise RetryableError(
            f"the rows to judge could not be read: {type(error).__name__}: {error}",
            code="storage-failed",
            hint="Check that the lake's storage can be reached from here; the next run tries again.",
            table=".".join(table.name()),
        ) from error
    return rows.sort_by([(PARTITION, "ascending"), (OFFSET, "ascending")]).select(schema.names).cast(schema)
