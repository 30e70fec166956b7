"""Rows of values, JSON or by schemas: their fields are columns, and so are fields of keys with a schema.

One column has such keys' fields, `_kafka_key` their bytes: the values' decoder sees the table without that
column, the keys' sees nothing else; a row needs both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from spark_jobs.config.columns import GROWTH, Growth
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.value_format import ValueFormat
from spark_jobs.formats.json.block import decode_chunk
from spark_jobs.formats.json.infer import observe
from spark_jobs.formats.json.plain import read_rows
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.records.by_schema import SchemaDecoder
from spark_jobs.records.by_schema_plain import PlainSchemaDecoder
from spark_jobs.records.decoder import BadValue, Decoded, Encoded, Format, Phase, shaping_of
from spark_jobs.records.shape import add_keys_and_headers, pick
from spark_jobs.schema.arrow_schema import column_of, no_rows
from spark_jobs.schema.column_source import (
    ColumnSource,
    KeyedColumns,
    KnownSchemas,
    SeenColumns,
    WrittenColumns,
    field_names,
)
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.iceberg_types import HEADERS, KEY, METADATA_COLUMNS
from spark_jobs.schema.placing import Rules
from spark_jobs.schema.schema_views import is_text

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

    from spark_jobs.protocol.cdc import Cdc
    from spark_jobs.protocol.progress import ColumnMap


# JSON's two readers of values, by ``formats/json``.


@dataclass(frozen=True, slots=True)
class JsonDecoder:
    """Decodes values that are JSON objects.

    Of the fields ``elsewhere`` nothing is read: they have no column here, and are none that a table lacks.
    ``fields`` are by column those that are called otherwise.
    """

    elsewhere: frozenset[str] = frozenset()
    fields: Mapping[str, str] = field(default_factory=dict)

    def read(self, encoded: Encoded, columns: pa.Schema, growth: Growth = GROWTH) -> Decoded:
        """Return values as rows of columns for their fields alone."""
        read = decode_chunk(
            encoded.items,
            pa.schema([column.with_name(self.fields.get(column.name, column.name)) for column in columns]),
            growth,
            elsewhere=self.elsewhere,
        )
        bad = tuple(BadValue(each.index, Phase.DECODE, each.field, each.error) for each in read.unread)
        decoded = Decoded(read.table, read.rows, bad, read.new_fields, read.ignored)
        return decoded.named(columns, len(encoded.items))

    def observe(self, records: Chunk, growth: Growth = GROWTH) -> Evidence:
        """See ``Decoder``; values that are not JSON objects are counted."""
        parts = (_observe_part(each, growth.max_fields_seen) for each in records.parts())
        return reduce(Evidence.merge, parts).without(self.elsewhere).within(growth.max_fields_seen)


def _observe_part(records: Chunk, max_fields: int) -> Evidence:
    present = None
    if None in records.values:
        present = [index for index, value in enumerate(records.values) if value is not None]
    values, offsets = cast("Sequence[bytes]", pick(records.values, present)), pick(records.offsets, present)
    return observe(values, partition=records.partition, offsets=offsets, max_fields=max_fields)


@dataclass(frozen=True, slots=True)
class PlainJsonDecoder:
    """Audit decoder of JSON objects; floating-point columns hold the nearest number.

    Fields ``elsewhere`` are said in no row of it, and need not be. ``fields`` are by column those that are
    called otherwise.
    """

    elsewhere: frozenset[str] = frozenset()
    fields: Mapping[str, str] = field(default_factory=dict)

    def read(self, encoded: Encoded, columns: pa.Schema) -> Decoded:
        """Return values as rows of columns for their fields alone."""
        table, rows, more, rounded = read_rows(encoded.items, columns, self.fields, self.elsewhere)
        return Decoded(table, rows, has_more=more, rounded=rounded)


Values = JsonDecoder | SchemaDecoder
PlainValues = PlainJsonDecoder | PlainSchemaDecoder


def flat(
    pipeline: PipelineConfig,
    schemas: KnownSchemas,
    rules: Rules,
    table: Schema | None,
    *,
    bound: ColumnMap,
    cdc: Cdc | None,  # noqa: ARG001  (of a mirror)
) -> Format:
    """See ``format_of``."""
    growth, shaping = pipeline.table_schema.growth, shaping_of(pipeline)
    schemas = schemas.in_forms(rules.forms)
    written = WrittenColumns(schemas, growth, rules, pipeline.is_exact)
    columns: ColumnSource = written
    if table is not None:
        schemas = schemas.placed(table, bound, rules)
    if pipeline.value.format is ValueFormat.JSON:
        seen = SeenColumns(growth, pipeline.is_exact, frozenset(shaping.columns))
        columns = seen if schemas.keys is None else KeyedColumns(seen, written)
        fields = field_names(table, bound)
        values: Values = JsonDecoder(shaping.elsewhere, fields)
        again: PlainValues = PlainJsonDecoder(shaping.elsewhere, fields)
    else:
        converts = pipeline.value.format is ValueFormat.CSV  # from text, numbers of epochs too
        values, again = SchemaDecoder(schemas, converts, rules.retyped), PlainSchemaDecoder(schemas)
    if (keys := schemas.keys) is None:
        return Format(FlatDecoder(values), PlainFlatDecoder(again), columns)
    names = frozenset(field.name for each in keys.every for field in each.columns.struct.fields)
    return Format(
        FlatDecoder(values, SchemaDecoder(keys), names),
        PlainFlatDecoder(again, PlainSchemaDecoder(keys), names),
        columns,
    )


@dataclass(frozen=True, slots=True)
class FlatDecoder:
    """Decodes values by ``values`` and keys by ``keys`` into their ``columns``, null if absent."""

    values: Values
    keys: SchemaDecoder | None = None
    columns: frozenset[str] = frozenset()

    def decode(self, records: Chunk, columns: pa.Schema, growth: Growth = GROWTH) -> Decoded:
        """See ``Decoder``."""
        own, others = _split(columns, self.columns)
        rows = self.values.read(Encoded.values(records), others, growth)
        new = rows.new_fields and rows.new_fields.merge(self._of_keys(records))
        if self.keys is not None and new is None:
            keyed = [row for row in rows.indices if records.keys[row] is not None]
            keys = self.keys.read(Encoded.keys(records, keyed), own, growth)
            new, rows = keys.new_fields, _with_keys(rows, keys, keyed, own)
        if new is not None:
            return Decoded(no_rows(columns), [], new_fields=new)
        return add_keys_and_headers(rows, records, columns)

    def observe(self, records: Chunk, growth: Growth = GROWTH) -> Evidence:
        """See ``Decoder``; the count of readable records is that of the values."""
        return self.values.observe(records, growth).merge(self._of_keys(records))

    def _of_keys(self, records: Chunk) -> Evidence:
        return Evidence(schemas=self.keys.new(Encoded.keys(records))) if self.keys else Evidence()


@dataclass(frozen=True, slots=True)
class PlainFlatDecoder:
    """The same for ``audit``: each value and key is read by its one-by-one reader."""

    values: PlainValues
    keys: PlainSchemaDecoder | None = None
    columns: frozenset[str] = frozenset()

    def decode(self, records: Chunk, columns: pa.Schema) -> Decoded:
        """See ``PlainDecoder``."""
        own, others = _split(columns, self.columns)
        plain = self.values.read(Encoded.values(records), others)
        if self.keys is not None:
            keyed = [row for row in plain.indices if records.keys[row] is not None]
            read = self.keys.read(Encoded.keys(records, keyed), own)
            place = {keyed[at]: position for position, at in enumerate(read.indices)}
            more = {keyed[at] for at in read.has_more}.union(plain.has_more)
            right = [at for at, row in enumerate(plain.indices) if records.keys[row] is None or row in place]
            plain = replace(plain, has_more=[*more]).only(right)
            rows_of_records = pa.array([place.get(row) for row in plain.indices], pa.int64())
            made = {name: read.table.column(name).take(rows_of_records) for name in own.names}
            plain = plain.beside(made, pa.schema([*others, *own]))
        return with_keys_and_headers(plain, records, columns)


def with_keys_and_headers(plain: Decoded, records: Chunk, columns: pa.Schema) -> Decoded:
    """Do what ``add_keys_and_headers`` does, for ``audit``."""
    if columns.field(KEY).type != pa.binary():
        plain = plain.only([at for at, row in enumerate(plain.indices) if is_text(records.keys[row])])
    made = {
        name: column_of([each[row] for row in plain.indices], columns.field(name).type)
        for name, each in ((KEY, records.keys), (HEADERS, records.headers))
    }
    return plain.beside(made, columns)


def _split(columns: pa.Schema, names: frozenset[str]) -> tuple[pa.Schema, pa.Schema]:
    """Return the columns with these names, if present, and the others."""
    both = [column for column in columns if column.name not in METADATA_COLUMNS]
    own = [column for column in both if column.name in names] if names else []
    return pa.schema(own), pa.schema([each for each in both if each.name not in names] if names else both)


def _with_keys(rows: Decoded, keys: Decoded, keyed: Sequence[int], own: pa.Schema) -> Decoded:
    """Return the rows with their keys' columns, without rows whose key is unreadable."""
    if keys.new_fields is not None:
        return rows
    rows = rows.without([bad.of_key(keyed[bad.index]) for bad in keys.bad]) if keys.bad else rows
    place = {keyed[index]: position for position, index in enumerate(keys.indices)}
    rows_of_records = pa.array([place.get(row) for row in rows.indices], pa.int64())
    key_columns = {
        field.name: keys.table.column(field.name).take(rows_of_records).combine_chunks() for field in own
    }
    rows = replace(rows, ignored=Counter(rows.ignored) + Counter(keys.ignored))
    return rows.beside(key_columns, pa.schema([*rows.table.schema, *own]))
