"""A table as a source for DuckDB: reads only the needed columns, and only files that may match.

DuckDB passes the columns of a query, and the conditions that Arrow can evaluate, to an Arrow dataset. The
conditions that Iceberg evaluates equally become the scan's row filter, which skips partitions and files by
their statistics (``pushed.py``); Arrow applies the others to the rows that are read. Hot rows follow.

For a query without columns, like ``count(*)``, DuckDB reads the first column. So the source's first column is
empty, and queries read a view without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, BoundEqualTo, BoundReference
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.types import IntegerType, LongType, StringType

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.expressions.quoting import quoted
from spark_jobs.hot.prefix import Prefix, Seam
from spark_jobs.lake.file_rows import NOTHING_PENDING, PendingRows, row_counts, scan_schema, stream
from spark_jobs.lake.moments import Moment
from spark_jobs.lake.tables import snapshot_at, snapshot_of, summary_of
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.query.pushed import Pushed, pushed

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyiceberg.schema import Schema
    from pyiceberg.table import DataScan, Table


_NOTHING = pa.field("nothing", pa.null())


class TableSource(ds.Dataset):  # type: ignore[misc]
    """One table including its pending rows (``owed``); ``open_scan`` returns the scan of all rows, once.

    ``hot`` are additional rows, different for each query. Of Arrow's dataset it has only what DuckDB calls:
    the schema, and a scanner.
    """

    def __init__(self, open_scan: Callable[[], DataScan], pending: PendingRows = NOTHING_PENDING) -> None:
        # Without Arrow's own: there is none of its datasets behind this one.
        self._pending = pending
        self._open_scan = open_scan
        self.hot = HotRows()

    def register(self, connection: DuckDBPyConnection, name: str) -> None:
        """Register the table as ``name`` for the connection's queries."""
        files = f"{name} in files"
        connection.register(files, self)
        seen = f"* EXCLUDE {_NOTHING.name} FROM temp.{quoted(files)}"
        connection.execute(f"CREATE TEMP VIEW {quoted(name)} AS SELECT {seen}")

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return pa.schema([_NOTHING, *self._schema])

    def scanner(self, columns: Sequence[str], filter: pc.Expression | None = None) -> _Scanned:  # noqa: A002
        """Return the rows that meet the condition, with the requested columns in their order."""
        known = self.pushed(filter)
        names = [name for name in columns if name != _NOTHING.name]
        if not names and known.is_whole:
            return _Scanned(self._nothings(known.condition))
        read = names if known.is_whole else [*names, *sorted(known.columns.difference(names))]
        in_order = pa.schema([self._schema.field(name) for name in read])
        # Choosing among columns takes some milliseconds.
        asked = self._scan if read == self._schema.names else self._scan.select(*read)
        in_files = stream(asked.filter(known.condition), in_order, self._pending)
        hot = self.hot.stream(in_order, known.condition, self._scan.projection())
        batches: Iterator[pa.RecordBatch] = chain(in_files, hot)
        wanted = pa.schema([self.schema.field(name) for name in columns])
        if not known.is_whole:
            batches = (part for batch in batches for part in _meeting(batch, filter, wanted))
        return _Scanned(pa.RecordBatchReader.from_batches(wanted, batches))

    def pushed(self, condition: pc.Expression | None) -> Pushed:
        """Return the part of a condition that skips files."""
        return pushed(condition, self.schema, self._columns)

    def _nothings(self, condition: BooleanExpression) -> pa.RecordBatchReader:
        """Return as many empty rows as meet the condition."""
        schema = pa.schema([_NOTHING])
        in_files = row_counts(self._scan.filter(condition), self._pending)
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
        """Return the columns that a row filter may use, name to type.

        A filter is bound to the table's newest schema, so a column that another tool renamed is left out.
        """
        newest = {field.field_id: field.name for field in self._scan.table_metadata.schema().fields}
        fields = self._scan.projection().fields
        return {f.name: str(f.field_type) for f in fields if newest.get(f.field_id) == f.name}


@dataclass(frozen=True, slots=True)
class _Scanned:
    """The part of an Arrow scanner that DuckDB reads."""

    rows: pa.RecordBatchReader

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows; may be called once."""
        return self.rows


def _meeting(batch: pa.RecordBatch, condition: pc.Expression, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows that meet the conditions that Iceberg cannot express, with the needed columns."""
    rows = pa.Table.from_batches([batch]).filter(condition)
    if _NOTHING.name in wanted.names:
        rows = rows.append_column(_NOTHING, pa.nulls(len(rows)))
    yield from rows.select(wanted.names).to_batches()


# Rows that are not in the lake, as an additional source of columns and conditions.


@dataclass(frozen=True, slots=True)
class HotRows:
    """Hot rows: tables with all columns of the lake's table, by name."""

    tables: Sequence[pa.Table] = ()

    def stream(
        self, columns: pa.Schema, condition: BooleanExpression, of: Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that meet the condition, which names columns ``of`` the lake's table."""
        for rows in self._meeting(condition, of):
            yield from rows.select(columns.names).cast(columns).to_batches()

    def count(self, condition: BooleanExpression, of: Schema) -> int:
        """Return the number of rows that meet the condition."""
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
    """False if the column cannot have the value; for a dictionary only its values are compared."""
    is_short = pa.types.is_dictionary(column.type)
    looked_through = [chunk.dictionary for chunk in column.chunks] if is_short else [column]
    return any(pc.any(pc.equal(values, value)).as_py() for values in looked_through)


def _equal(condition: BooleanExpression) -> Iterator[tuple[str, str | int]]:
    """Return the columns that must equal one value, by name, if Arrow has the value's type."""
    match condition:
        case And(left=left, right=right):
            yield from _equal(left)
            yield from _equal(right)
        case BoundEqualTo(term=BoundReference(field=column), literal=literal):
            if isinstance(column.field_type, StringType | IntegerType | LongType):
                yield column.name, literal.value


# The relations that a query reads: a pipeline's table and those it routes rows to, and its dead letters.
#
# Sources are prepared for a state of the lake; the hot rows are added for each query.


DEAD_LETTERS, WATERMARK = "dead_letters", "sluice_watermark"


def registered(
    own: DuckDBPyConnection,
    pipeline: PipelineConfig,
    seam: Seam,
    *,
    within: BooleanExpression,
    as_of: Moment | None,
) -> dict[str, TableSource]:
    """Register the lake's tables for queries; return the sources of those that also have hot rows."""
    table, sources = seam.table, {}
    scan = table.scan(within, snapshot_id=snapshot_at(table, as_of).snapshot_id if as_of else None)
    if seam.dead_letters is not None:
        with _if_there_then():
            letters = _beside(table, seam.dead_letters, scan, within, seam.pending_rows)
            letters.register(own, DEAD_LETTERS)
            sources[DEAD_LETTERS] = letters
    taken = {DEAD_LETTERS, WATERMARK}
    sources[pipeline.table] = TableSource(lambda: scan)
    _register_by_name(own, sources[pipeline.table], pipeline.table, taken)
    for name, routed in seam.routed.items():
        with _if_there_then():
            source = _beside(table, routed, scan, within, seam.pending_to(name))
            _register_by_name(own, source, name, taken)
    return sources


@contextmanager
def beside_hot(
    sources: Mapping[str, TableSource], prefix: Prefix, pipeline: PipelineConfig
) -> Iterator[None]:
    """Give the sources the hot rows of a query until it ends."""
    hot = {pipeline.table: prefix.rows, DEAD_LETTERS: prefix.dead_letters}
    for name, source in sources.items():
        source.hot = HotRows(hot[name])
    try:
        yield
    finally:
        for source in sources.values():
            source.hot = HotRows()


def _register_by_name(
    engine: DuckDBPyConnection, source: TableSource, identifier: str, taken: set[str]
) -> None:
    """Register a table by its full name, and by the last part of it unless another table has that."""
    *namespace, name = identifier.split(".")
    source.register(engine, identifier)
    whole = f"FROM temp.{quoted(identifier)}"
    if name.lower() not in taken:
        taken.add(name.lower())
        engine.execute(f"CREATE TEMP VIEW {quoted(name)} AS {whole}")
    if len(namespace) == 1:
        schema = quoted(*namespace)
        engine.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        engine.execute(f"CREATE VIEW {schema}.{quoted(name)} AS {whole}")


def _beside(
    table: Table,
    other: Table,
    scan: DataScan,
    within: BooleanExpression,
    pending: PendingRows,
) -> TableSource:
    """Return the pending rows that belong to the scan, so that each record is in one table."""
    if scan.snapshot_id not in {None, table.metadata.current_snapshot_id}:
        then = _beside_then(other, scan)
        return TableSource(lambda: then)
    return TableSource(partial(other.scan, within), pending)


@contextmanager
def _if_there_then() -> Iterator[None]:
    """Register a table as of a moment, unless it has no snapshot from then."""
    try:
        yield
    except ConfigError as error:
        if error.code not in {"no-such-snapshot", "no-history"}:
            raise


def _beside_then(other: Table, scan: DataScan) -> DataScan:
    """Return the pending rows as of an earlier moment.

    A batch's dead letters are committed after its rows, so time alone would leave them out.
    """
    if scan.snapshot_id is None:
        raise AssertionError("the scan is of a snapshot")
    data = scan.table_metadata.snapshot_by_id(scan.snapshot_id)
    if data is None:
        raise AssertionError("the scan is of a snapshot the table has")
    attempt = summary_of(data).attempt
    own = snapshot_of(other, attempt) if attempt else None
    by_time = Moment(at_ms=data.timestamp_ms)
    return other.scan(snapshot_id=own or snapshot_at(other, by_time).snapshot_id)
