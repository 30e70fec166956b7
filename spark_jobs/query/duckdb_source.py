"""A table as DuckDB scans it: asked for columns and conditions, it opens the files that can matter.

DuckDB tells a source which columns a query touches and offers it conditions. Those that Iceberg evaluates
alike become the scan's row filter, which leaves out partitions and files by their statistics; the others
DuckDB evaluates itself. Hot rows follow those of the files, by the same conditions.

DuckDB asks for the first column when it wants none, as ``count(*)`` does. So the source's first column is one
that holds nothing, and that queries do not see: they read a view without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
from duckdb._sources.arrow import ArrowScanSource
from pyiceberg.expressions import AlwaysTrue, And

from spark_jobs.expressions.quoting import quoted
from spark_jobs.lake.file_rows import NOTHING_OWED, Owed, row_counts, scan_schema, stream
from spark_jobs.query.duckdb_filter import row_filter
from spark_jobs.query.hot_rows import HotRows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from duckdb._sources.nodes import Node
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import DataScan


_NOTHING = pa.field("nothing", pa.null())


class TableSource(ArrowScanSource):
    """One table, as it is once what it is ``owed`` is in; ``open_scan`` gives the scan of all rows, once.

    ``hot`` are rows beside those of the scan, other ones for each query.
    """

    schema_is_stable = True

    def __init__(self, open_scan: Callable[[], DataScan], owed: Owed = NOTHING_OWED) -> None:
        super().__init__(self)
        self._owed = owed
        self._open_scan = open_scan
        self.hot = HotRows()

    def register(self, connection: DuckDBPyConnection, name: str) -> None:
        """Let the connection's queries read the table as ``name``."""
        files = f"{name} in files"
        connection._register_arrow_source(files, self)  # noqa: SLF001  (no public way takes a source)
        seen = f"* EXCLUDE {_NOTHING.name} FROM temp.{quoted(files)}"
        connection.execute(f"CREATE TEMP VIEW {quoted(name)} AS SELECT {seen}")

    def __arrow_c_schema__(self) -> object:
        """Return the columns of all rows."""
        return pa.schema([_NOTHING, *self._schema]).__arrow_c_schema__()

    def accepts(self, predicate: Node) -> bool:
        """True if Iceberg keeps exactly the rows for which the condition is true."""
        return row_filter(predicate, self._columns) is not None

    def stream(self, columns: Sequence[int] | None, filters: Sequence[Node]) -> tuple[object, bool]:
        """The rows that meet the accepted conditions, with the asked columns in the order asked for."""
        accepted = [row_filter(predicate, self._columns) for predicate in filters]
        condition: BooleanExpression = AlwaysTrue()
        for each in accepted:
            if each is None:
                raise AssertionError("only accepted conditions are handed over")
            condition = And(condition, each)
        if columns == [0]:
            return self._nothings(condition).__arrow_c_stream__(), True
        indexes = range(1, len(self._schema) + 1) if columns is None else columns
        names = [self._schema.names[index - 1] for index in indexes]
        in_order = pa.schema([self._schema.field(name) for name in names])
        # Choosing among columns takes some milliseconds.
        asked = self._scan if names == self._schema.names else self._scan.select(*names)
        in_files = stream(asked.filter(condition), in_order, self._owed)
        hot = self.hot.stream(in_order, condition, self._scan.projection())
        batches = chain(in_files, hot)
        ordered = pa.RecordBatchReader.from_batches(in_order, batches)
        return ordered.__arrow_c_stream__(), columns is not None

    def _nothings(self, condition: BooleanExpression) -> pa.RecordBatchReader:
        """As many rows of nothing as meet the condition."""
        schema = pa.schema([_NOTHING])
        in_files = row_counts(self._scan.filter(condition), self._owed)
        hot = self.hot.count(condition, self._scan.projection())
        counts = chain(in_files, [hot] if hot else [])
        batches = (pa.record_batch([pa.nulls(count)], schema=schema) for count in counts)
        return pa.RecordBatchReader.from_batches(schema, batches)

    @cached_property
    def _scan(self) -> DataScan:
        return self._open_scan()

    @cached_property
    def _schema(self) -> pa.Schema:
        return scan_schema(self._scan)

    @cached_property
    def _columns(self) -> dict[str, str]:
        """The type by name of the columns that a row filter may speak of.

        A filter is bound to the table's newest schema: a column that another tool renamed is not among them.
        """
        newest = {field.field_id: field.name for field in self._scan.table_metadata.schema().fields}
        fields = self._scan.projection().fields
        return {f.name: str(f.field_type) for f in fields if newest.get(f.field_id) == f.name}
