"""A table as DuckDB scans it: asked for columns and conditions, it opens the files that can matter.

DuckDB tells a dataset of Arrow's which columns a query touches, and the conditions that Arrow can evaluate.
What Iceberg evaluates alike becomes the scan's row filter, which leaves out partitions and files by their
statistics (``pushed.py``); by the others Arrow filters what is read. Hot rows follow those of the files.

DuckDB asks for the first column when it wants none, as ``count(*)`` does. So the source's first column is one
that holds nothing, and that queries do not see: they read a view without it.
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
    """One table, as it is once what it is ``owed`` is in; ``open_scan`` gives the scan of all rows, once.

    ``hot`` are rows beside those of the scan, other ones for each query. DuckDB asks a dataset of Arrow's for
    its schema, and then for columns and rows; nothing else of one is there.
    """

    def __init__(self, open_scan: Callable[[], DataScan], pending: PendingRows = NOTHING_PENDING) -> None:
        # Without Arrow's own: there is none of its datasets behind this one.
        self._pending = pending
        self._open_scan = open_scan
        self.hot = HotRows()

    def register(self, connection: DuckDBPyConnection, name: str) -> None:
        """Let the connection's queries read the table as ``name``."""
        files = f"{name} in files"
        connection.register(files, self)
        seen = f"* EXCLUDE {_NOTHING.name} FROM temp.{quoted(files)}"
        connection.execute(f"CREATE TEMP VIEW {quoted(name)} AS SELECT {seen}")

    @property
    def schema(self) -> pa.Schema:
        """The columns of all rows."""
        return pa.schema([_NOTHING, *self._schema])

    def scanner(self, columns: Sequence[str], filter: pc.Expression | None = None) -> _Scanned:  # noqa: A002
        """Return the rows that meet the condition, with the asked columns in the order asked for."""
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
        """Return what of a condition leaves out files."""
        return pushed(condition, self.schema, self._columns)

    def _nothings(self, condition: BooleanExpression) -> pa.RecordBatchReader:
        """As many rows of nothing as meet the condition."""
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
        """The type by name of the columns that a row filter may speak of.

        A filter is bound to the table's newest schema: a column that another tool renamed is not among them.
        """
        newest = {field.field_id: field.name for field in self._scan.table_metadata.schema().fields}
        fields = self._scan.projection().fields
        return {f.name: str(f.field_type) for f in fields if newest.get(f.field_id) == f.name}


@dataclass(frozen=True, slots=True)
class _Scanned:
    """What DuckDB reads of a scanner."""

    rows: pa.RecordBatchReader

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows, once."""
        return self.rows


def _meeting(batch: pa.RecordBatch, condition: pc.Expression, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows that meet what Iceberg has no terms for, with the columns that are wanted."""
    rows = pa.Table.from_batches([batch]).filter(condition)
    if _NOTHING.name in wanted.names:
        rows = rows.append_column(_NOTHING, pa.nulls(len(rows)))
    yield from rows.select(wanted.names).to_batches()


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


# The relations that a query reads: a pipeline's table and those it routes rows to, and its dead letters.
#
# They are prepared for a state of the lake; what Kafka has beyond it is put beside them for each query.


DEAD_LETTERS, WATERMARK = "dead_letters", "sluice_watermark"


def registered(
    own: DuckDBPyConnection,
    pipeline: PipelineConfig,
    seam: Seam,
    *,
    within: BooleanExpression,
    as_of: Moment | None,
) -> dict[str, TableSource]:
    """Let queries read the lake's tables, and return the sources of those that have hot rows too."""
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
    """Let sources have the hot rows of a query until it is over."""
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
    """Under its whole name, and under the last part of it unless another has that."""
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
    """Return what belongs to the rows of the scan: each record is in one of the tables."""
    if scan.snapshot_id not in {None, table.metadata.current_snapshot_id}:
        then = _beside_then(other, scan)
        return TableSource(lambda: then)
    return TableSource(partial(other.scan, within), pending)


@contextmanager
def _if_there_then() -> Iterator[None]:
    """Leave out a table without a snapshot of the moment: it was not there yet, or that has expired."""
    try:
        yield
    except ConfigError as error:
        if error.code not in {"no-such-snapshot", "no-history"}:
            raise


def _beside_then(other: Table, scan: DataScan) -> DataScan:
    """Return that of an earlier moment.

    A batch's own are committed after its rows, so time alone would leave them out.
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
