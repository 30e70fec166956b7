"""A table as DuckDB scans it: asked for columns and conditions, it opens the files that can matter.

DuckDB tells a source which columns a query touches and offers it conditions. Those that Iceberg evaluates
alike become the scan's row filter, which leaves out partitions and files by their statistics; the others
DuckDB evaluates itself. Hot rows follow those of the files, by the same conditions.

DuckDB asks for the first column when it wants none, as ``count(*)`` does. So the source's first column is one
that holds nothing, and that queries do not see: they read a view without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from duckdb._sources.arrow import ArrowScanSource
from duckdb._sources.nodes import Binary, Col, In, Lit, Postfix, exact_value
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BoundEqualTo,
    BoundReference,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotNull,
    Or,
    Reference,
)
from pyiceberg.expressions import In as IsIn
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.types import IntegerType, LongType, StringType

from spark_jobs.expressions.quoting import quoted
from spark_jobs.lake.file_rows import NOTHING_OWED, Owed, row_counts, scan_schema, stream

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from duckdb._sources.nodes import Node
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.schema import Schema
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


# DuckDB's conditions in Iceberg's terms, where both would keep exactly the same rows.


_COMPARISONS = {
    "=": EqualTo,
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
}
_NULLS = {"IS NULL": IsNull, "IS NOT NULL": NotNull}
# By DuckDB's name of a constant's type, the column's type in Iceberg that is equal and ordered the same way.
# Floating point is not among them: DuckDB orders NaN, statistics leave it out.
_ALIKE = {
    "INTEGER": "int",
    "BIGINT": "long",
    "VARCHAR": "string",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
}


def row_filter(predicate: Node, columns: Mapping[str, str]) -> BooleanExpression | None:
    """The condition over ``columns`` (name to Iceberg type); None when Iceberg might keep other rows."""
    match predicate:
        case Binary(op="AND" | "OR" as op, left=left, right=right):
            one, other = row_filter(left, columns), row_filter(right, columns)
            if one is None or other is None:
                return None
            return And(one, other) if op == "AND" else Or(one, other)
        # A dot in a column's name would be read as a path into a struct.
        case Binary(left=Col(parts=(name,))) | In(operand=Col(parts=(name,))) if "." not in name:
            return _compared(predicate, name, columns.get(name))
        case Postfix(op=op, operand=Col(parts=(name,))) if "." not in name and op in _NULLS:
            return _NULLS[op](Reference(name)) if columns.get(name) in _ALIKE.values() else None
    return None


def _compared(predicate: Node, name: str, kind: str | None) -> BooleanExpression | None:
    compared: BooleanExpression | None = None
    match predicate:
        case Binary(op=op, right=Lit() as constant) if op in _COMPARISONS and _is_alike(constant, kind):
            compared = _COMPARISONS[op](Reference(name), constant.value)
        case In(values=values):
            constants = {v.value for v in values if isinstance(v, Lit) and _is_alike(v, kind)}
            is_whole = all(isinstance(v, Lit) and _is_alike(v, kind) for v in values)
            compared = IsIn(Reference(name), constants) if is_whole else None  # type: ignore[arg-type, call-arg]
    return compared


def _is_alike(constant: Lit, kind: str | None) -> bool:
    return kind is not None and _ALIKE.get(constant.type) == kind and exact_value(constant)


# Rows that are not in the lake, as a source beside the table's files: asked for columns and a condition.


@dataclass(frozen=True, slots=True)
class HotRows:
    """Tables with all columns of the lake's table, found by name."""

    tables: Sequence[pa.Table] = ()

    def stream(
        self, columns: pa.Schema, condition: BooleanExpression, of: Schema
    ) -> Iterator[pa.RecordBatch]:
        """The rows that meet the condition, which speaks of the columns ``of`` the lake's table, in these."""
        for rows in self._meeting(condition, of):
            yield from rows.select(columns.names).cast(columns).to_batches()

    def count(self, condition: BooleanExpression, of: Schema) -> int:
        """Return how many rows meet the condition."""
        return sum(rows.num_rows for rows in self._meeting(condition, of))

    def _meeting(self, condition: BooleanExpression, of: Schema) -> Iterator[pa.Table]:
        if isinstance(condition, AlwaysTrue):
            yield from self.tables
            return
        bound = bind(of, condition, case_sensitive=True)
        matching, equal = expression_to_pyarrow(bound), dict(_equal(bound))
        for rows in self.tables:
            # Filtering asks for all columns: a look at one leaves out most tables where a key is looked for.
            if all(_may_have(rows.column(name), value) for name, value in equal.items()):
                yield rows.filter(matching)


def _may_have(column: pa.ChunkedArray, value: str | int) -> bool:
    """False if it does not have the value; of a dictionary, which is short, no more is asked than that."""
    is_short = pa.types.is_dictionary(column.type)
    looked_through = [chunk.dictionary for chunk in column.chunks] if is_short else [column]
    return any(pc.any(pc.equal(values, value)).as_py() for values in looked_through)


def _equal(condition: BooleanExpression) -> Iterator[tuple[str, str | int]]:
    """The columns, by name, that must have one value, as far as its plain form is Arrow's too."""
    match condition:
        case And(left=left, right=right):
            yield from _equal(left)
            yield from _equal(right)
        case BoundEqualTo(term=BoundReference(field=column), literal=literal):
            if isinstance(column.field_type, StringType | IntegerType | LongType):
                yield column.name, literal.value
