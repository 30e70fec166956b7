"""Interfaces between records and rows: decoders, their results, and what is done to those.

What a record becomes depends on the record, the configuration and the table's columns, never on the records
beside it. Drain, preview, audit and replay all make their rows so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import pyarrow as pa

from spark_jobs.config.columns import GROWTH, ColumnSettings, FieldForm, Growth
from spark_jobs.config.value_format import ValueFormat
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.iceberg_types import KEY
from spark_jobs.schema.writer_schema import Form, Forms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.expressions.judging import Expression
    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.schema.column_source import ColumnSource


class Phase(StrEnum):
    """The step that a record did not pass."""

    SCHEMA = "schema"
    DECODE = "decode"
    KEY = "key"
    TIMESTAMP = "timestamp"  # of letters that versions before made, which can be redriven
    TRANSFORM = "transform"
    QUALITY = "quality"


@dataclass(frozen=True, slots=True)
class BadValue:
    """A record that cannot become a row: its index, the field (None: the whole record) and the reason."""

    index: int
    phase: Phase
    field: str | None
    error: str

    def of_key(self, index: int) -> BadValue:
        """Return the same for the key of the record at this index."""
        phase = Phase.KEY if self.phase is Phase.DECODE else self.phase
        return BadValue(index, phase, self.field or KEY, f"the key: {self.error}")


Headers = Sequence[tuple[str, bytes | None]] | None
STAYS = -1  # the place of a row in the pipeline's own table


@dataclass(frozen=True, slots=True)
class Routes:
    """Target table of each record's row by record index, an index into ``tables``; -1: it stays.

    ``unlisted`` counts rows that stay since no table is listed for their value.
    """

    tables: tuple[str, ...]
    places: NDArray[np.int16]
    unlisted: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Encoded:
    """The bytes of these ``rows`` of a chunk; none is null."""

    records: Chunk
    rows: Sequence[int]
    items: Sequence[bytes]

    @classmethod
    def values(cls, records: Chunk, rows: Sequence[int] | None = None) -> Encoded:
        """Return the values of these records, or of all; each must have one."""
        if rows is None:
            return cls(records, range(len(records.values)), cast("Sequence[bytes]", records.values))
        return cls(records, rows, [cast("bytes", records.values[row]) for row in rows])

    @classmethod
    def there(cls, records: Chunk) -> Encoded:
        """Return the values of the records that have one."""
        return cls.values(records, [row for row, value in enumerate(records.values) if value is not None])

    @classmethod
    def keys(cls, records: Chunk, rows: Sequence[int] | None = None) -> Encoded:
        """Return the keys of these records, or of all that have one."""
        if rows is None:
            rows = [row for row, key in enumerate(records.keys) if key is not None]
        return cls(records, rows, [cast("bytes", records.keys[row]) for row in rows])

    @property
    def headers(self) -> Sequence[Headers]:
        """The headers of each record."""
        beside = self.records.headers
        return beside if self._is_all else [beside[row] for row in self.rows]

    @property
    def partitions(self) -> np.ndarray:
        """The partition of each record."""
        return self._take(self.records.partitions)

    @property
    def offsets(self) -> np.ndarray:
        """The offset of each record."""
        return self._take(np.asarray(self.records.offsets, np.int64))

    @property
    def _is_all(self) -> bool:
        return len(self.rows) == len(self.records.offsets)

    def _take(self, column: np.ndarray) -> np.ndarray:
        return column if self._is_all else column[np.asarray(self.rows, np.intp)]


@dataclass(frozen=True, slots=True)
class Decoded:
    """A chunk's rows in record order, and the records that cannot become rows.

    ``rows`` are the indices of the records in ``table``, None when it is all of them; ``bad`` is in the
    records' order. With ``new_fields`` the chunk has fields that columns can be added for, or names schemas
    that are not known yet: ``table`` is empty, decode again with them. ``ignored`` fields have no column and
    are in no row: by dotted name, how many values they have. ``left_out`` are the indices of records that a
    filter keeps from being rows, by reason, ``passed`` of those that say nothing of a row, by the balance's
    term. ``routes`` say where rows go. Rows
    (``of_kafka``) are to get what Kafka says of each record.

    Of records that were read again, what can be no row is nowhere; ``has_more`` are those that say more than
    their row, ``rounded`` those with an integer of which a column holds only the nearest double, by the
    column's dotted name and the Iceberg type that would hold it.
    """

    table: pa.Table
    rows: list[int] | None = None
    bad: tuple[BadValue, ...] = ()
    new_fields: Evidence | None = None
    ignored: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, Sequence[int]] = field(default_factory=dict)
    passed: Mapping[str, Sequence[int]] = field(default_factory=dict)
    of_kafka: bool = False
    routes: Routes | None = None
    has_more: Sequence[int] = ()
    rounded: Mapping[tuple[str, str], Sequence[int]] = field(default_factory=dict)

    @property
    def indices(self) -> Sequence[int]:
        """The indices of the records in ``table``."""
        return range(self.table.num_rows) if self.rows is None else self.rows

    def beside(self, columns: Mapping[str, pa.Array], schema: pa.Schema) -> Decoded:
        """Return rows of ``schema`` from these columns and the table's own, found by name."""
        every = {**dict(zip(self.table.column_names, self.table.columns, strict=True)), **columns}
        table = pa.Table.from_arrays([every[name] for name in schema.names], schema=schema)
        return replace(self, table=table)

    def named(self, columns: pa.Schema, count: int) -> Decoded:
        """Return the rows of ``count`` records with renamed columns, if there are any."""
        # A table without columns does not say how many rows it has.
        is_bare = self.rows is None and self.new_fields is None and not columns.names
        if not is_bare and self.table.schema == columns:
            return self
        table = self.table.rename_columns(columns.names)
        return replace(self, table=table, rows=[*range(count)] if is_bare else self.rows)

    def only(self, positions: Sequence[int]) -> Decoded:
        """Return only the rows at these positions."""
        rows = [self.indices[position] for position in positions]
        return replace(
            self,
            table=self.table.take(pa.array(positions, pa.int64())),  # typed: none may be left
            rows=rows,
            has_more=sorted({*rows}.intersection(self.has_more)),
            rounded={column: sorted({*rows}.intersection(at)) for column, at in self.rounded.items()},
        )

    def without(self, bad: Sequence[BadValue]) -> Decoded:
        """Return the result with these records' rows among the bad values."""
        at_fault = {value.index for value in bad}
        kept = [position for position, row in enumerate(self.indices) if row not in at_fault]
        every_bad = sorted((*self.bad, *bad), key=lambda value: value.index)
        return replace(self.only(kept), bad=tuple(every_bad))


class Decoder(Protocol):
    """The interface of a record format. Pickled to Spark's tasks: a frozen dataclass without secrets."""

    def decode(self, records: Chunk, columns: pa.Schema, growth: Growth = GROWTH) -> Decoded:
        """Return every record as an unchanged row of ``columns`` or as a bad value; none is left out.

        ``columns`` are a table's own but for those of the record's origin: the value's, ``_kafka_key`` and
        ``_kafka_headers``. No value is None where the format does not take tombstones. With ``new_fields``
        in the result nothing was decoded.
        """

    def observe(self, records: Chunk, growth: Growth = GROWTH) -> Evidence:
        """Return the fields or schemas of the values; records without a value are skipped."""


class PlainDecoder(Protocol):
    """An independent, slower decoder for audits."""

    def decode(self, records: Chunk, columns: pa.Schema) -> Decoded:
        """Return the expected rows of ``columns``, which are given as for ``Decoder``."""


@dataclass(frozen=True, slots=True)
class Format:
    """A record format: its decoder, its audit decoder, and the source of its columns.

    One that ``takes_tombstones`` makes rows of records without a value too.
    """

    decoder: Decoder
    plain: PlainDecoder
    columns: ColumnSource
    takes_tombstones: bool = False


# What a pipeline's rows are beside their fields: converted ones, columns by expressions, a filter, a route.


# Their names among columns, none of which is called so.
FILTER = ""
_FORMS = {"string": Form.TEXT, "long": Form.NUMBER}
ROUTE = "\0"


@dataclass(frozen=True)
class Shaping:
    """Processing of decoded records; it travels to tasks with their work.

    ``columns`` are those that a field as it is does not fill; ``by`` gives the value that ``routes`` has a
    table for, None the pipeline's own. Where the table ``ignores`` fields, a name that
    is no column is one of them, of JSON its text; else it is a column that no record had a value for yet.
    ``fields`` are by column those that are called otherwise: expressions have them by their own names.
    """

    columns: Mapping[str, ColumnSettings] = field(default_factory=dict)
    condition: str | None = None
    is_json: bool = True
    ignores: bool = False
    by: str | None = None
    routes: Mapping[str, str | None] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def computed(self) -> frozenset[str]:
        """The columns that no decoder fills."""
        of_documents = {FieldForm.NUMBER, FieldForm.JSON} if self.is_json else set()
        return frozenset(
            name
            for name, column in self.columns.items()
            if column.is_computed or column.written_as in of_documents
        )

    @property
    def converted(self) -> frozenset[str]:
        """The columns that are fields in another form."""
        return frozenset(name for name, column in self.columns.items() if column.written_as or column.fit)

    @cached_property
    def elsewhere(self) -> frozenset[str]:
        """The JSON fields that a decoder skips, with or without a column, and that are read here."""
        used = {name for each in (*self.first_pass.values(), *self.of_rows.values()) for name in each.names}
        return self.computed | (used if self.ignores else set())

    @cached_property
    def expressions(self) -> dict[str, Expression]:
        """The SQL expressions, by column."""
        return {name: _judged(each.sql) for name, each in self.columns.items() if each.sql is not None}

    @cached_property
    def of_rows(self) -> dict[str, Expression]:
        """The filter and the route, by the names that they have among columns."""
        given = {FILTER: self.condition, ROUTE: self.by}
        return {name: _judged(sql) for name, sql in given.items() if sql is not None}

    @cached_property
    def first_pass(self) -> dict[str, Expression]:
        """The columns' expressions, and row expressions that use no computed column."""
        computed = {name.lower() for name, column in self.columns.items() if column.is_computed}
        return self.expressions | {
            name: each
            for name, each in self.of_rows.items()
            if not any(used.lower() in computed for used in each.names)
        }

    def is_text(self, name: str) -> bool:
        """True if a name in an expression that is not a column is a field's text."""
        return self.is_json and (self.ignores or name in self.computed)

    def decoded(self, columns: pa.Schema) -> pa.Schema:
        """Return the columns that a decoder fills, in the types of the records."""
        if not self.columns:
            return columns
        return pa.schema(
            [self.decoded_field(column) for column in columns if column.name not in self.computed]
        )

    def decoded_field(self, column: pa.Field) -> pa.Field:
        """Return the column that a decoder fills for this one."""
        if (settings := self.columns.get(column.name)) is None:
            return column
        form = settings.written_as
        if form is FieldForm.TEXT or settings.fit is not None:
            return column.with_type(pa.string())
        if form is not None and (form.is_epoch or pa.types.is_boolean(column.type)):
            return column.with_type(pa.int64())
        return column

    @property
    def is_nothing(self) -> bool:
        """True if decoded records are already rows."""
        return not self.columns and self.condition is None and self.by is None


NO_SHAPING = Shaping()


def shaping_of(pipeline: PipelineConfig) -> Shaping:
    """Return the processing of the pipeline's decoded records."""
    return Shaping(
        {name: column for name, column in pipeline.columns.items() if column.source},
        pipeline.filter,
        pipeline.value.format is ValueFormat.JSON and pipeline.envelope is None,
        pipeline.table_schema.growth.ignores,
        pipeline.route.by,
        {value: None if table == pipeline.table else table for value, table in pipeline.route.tables.items()},
    )


def configured_forms(pipeline: PipelineConfig) -> Forms:
    """Return the form in which configured times are read; a truncated one is read as text."""
    forms = {
        name: Form.TEXT if column.fit else _FORMS.get(column.type)
        for name, column in pipeline.columns.items()
        if not column.is_computed and column.written_as is None
    }
    return tuple((name, form) for name, form in sorted(forms.items()) if form is not None)


def _judged(sql: str) -> Expression:
    # DuckDB, which workers need for expressions alone.
    from spark_jobs.expressions.judging import judge  # noqa: PLC0415

    return judge(sql)
