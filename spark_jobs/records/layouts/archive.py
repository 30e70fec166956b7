"""Rows of an archive: each record is a row with its bytes, and its readable parts next to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.config.columns import GROWTH, Growth, NewFields
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.value_format import ValueFormat
from spark_jobs.formats.lanes.packed_values import PackedValues
from spark_jobs.records.by_schema import SchemaDecoder, schema_ids
from spark_jobs.records.by_schema_plain import PlainSchemaDecoder
from spark_jobs.records.decoder import Decoded, Encoded, Format
from spark_jobs.records.layouts.flat import JsonDecoder, PlainJsonDecoder, PlainValues, Values
from spark_jobs.records.shape import headers_column
from spark_jobs.schema.archive_columns import (
    HEADERS,
    KEY,
    RAW,
    SCHEMA_ID,
    VALUE,
    ArchiveColumns,
    inside_value,
    key_alone,
)
from spark_jobs.schema.arrow_schema import no_rows, one_array
from spark_jobs.schema.column_source import KnownSchemas, SeenColumns, WrittenColumns
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.iceberg_types import HEADERS as KAFKA_HEADERS
from spark_jobs.schema.iceberg_types import KEY as KAFKA_KEY
from spark_jobs.schema.placing import Rules

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.protocol.cdc import Cdc
    from spark_jobs.protocol.progress import ColumnMap


def archive(
    pipeline: PipelineConfig,
    schemas: KnownSchemas,
    rules: Rules,
    table: Schema | None,
    *,
    bound: ColumnMap,
    cdc: Cdc | None,  # noqa: ARG001  (of a mirror)
) -> Format:
    """See ``format_of``."""
    growth = pipeline.table_schema.growth
    values, keys = replace(schemas, keys=None), schemas.keys
    is_json = pipeline.value.format is ValueFormat.JSON
    columns = ArchiveColumns(
        SeenColumns(growth) if is_json else WrittenColumns(values, growth, rules),
        None if keys is None else WrittenColumns(keys, growth, rules),
    )
    if table is not None:
        values = values.placed(inside_value(table), bound, rules)
        keys = keys and keys.placed(key_alone(table), bound, rules)
    decoder = JsonDecoder() if is_json else SchemaDecoder(values)
    plain = PlainJsonDecoder() if is_json else PlainSchemaDecoder(values)
    return Format(
        ArchiveDecoder(decoder, values, None if keys is None else SchemaDecoder(keys)),
        PlainArchiveDecoder(plain, values, None if keys is None else PlainSchemaDecoder(keys)),
        columns,
        takes_tombstones=True,
    )


@dataclass(frozen=True, slots=True)
class ArchiveDecoder:
    """Decodes values and keys; unreadable parts are null next to the bytes, and counted."""

    values: Values
    schemas: KnownSchemas
    keys: SchemaDecoder | None

    def decode(self, records: Chunk, columns: pa.Schema, growth: Growth = GROWTH) -> Decoded:
        """See ``Decoder``; takes columns without ``kafka`` and returns no bad values.

        What gets no column is in the bytes; no column is given another type.
        """
        growth = growth if growth.room else replace(growth, new_fields=NewFields.IGNORE)
        packed, raw = PackedValues.beside_column(records.values)
        present = _present_rows(raw)
        is_whole = len(present) == len(packed)
        named = Encoded(records, present, packed if is_whole else packed.take(np.array(present, np.intp)))
        is_packed = isinstance(self.values, SchemaDecoder)  # which would pack them once more
        encoded = named if is_packed else Encoded.values(records, None if is_whole else present)
        values = self.values.read(encoded, _inner(columns), growth)
        raw_keys = pa.array(records.keys, pa.binary())
        of_keys = Encoded.keys(records, _present_rows(raw_keys) if self.keys else ())
        keys = None if self.keys is None else self.keys.read(of_keys, _key_fields(columns), growth)
        new = [each.new_fields for each in (values, keys) if each is not None and each.new_fields is not None]
        if new:
            return Decoded(no_rows(columns), [], new_fields=new[0].merge(new[-1]))
        value = _value(raw, _schema_ids(self.schemas, named), _parts_by_record(values, named), columns)
        key = _key(raw_keys, _parts_by_record(keys, of_keys) if keys else {}, columns)
        unread = Counter({VALUE: len(values.bad), KEY: len(keys.bad) if keys else 0})
        ignored = Counter(values.ignored) + +unread
        rows = _rows(records, columns, {VALUE: value, KEY: key, KAFKA_KEY: raw_keys})
        return Decoded(rows, ignored=ignored, of_kafka=True)

    def observe(self, records: Chunk, growth: Growth = GROWTH) -> Evidence:
        """See ``Decoder``; every record can be a row."""
        seen = self.values.observe(records, growth)
        if self.keys is not None:
            seen = seen.merge(Evidence(schemas=self.keys.new(Encoded.keys(records))))
        return replace(seen, records=len(records.offsets), undecodable=0)


@dataclass(frozen=True, slots=True)
class PlainArchiveDecoder:
    """The same for ``audit``."""

    values: PlainValues
    schemas: KnownSchemas
    keys: PlainSchemaDecoder | None

    def decode(self, records: Chunk, columns: pa.Schema) -> Decoded:
        """See ``PlainDecoder``."""
        raw, raw_keys = (pa.array(each, pa.binary()) for each in (records.values, records.keys))
        named, of_keys = (
            Encoded.values(records, _present_rows(raw)),
            Encoded.keys(records, _present_rows(raw_keys)),
        )
        values = _parts_by_record(self.values.read(named, _inner(columns)), named)
        keys = {}
        if self.keys is not None:
            keys = _parts_by_record(self.keys.read(of_keys, _key_fields(columns)), of_keys)
        value = _value(raw, _schema_ids(self.schemas, named), values, columns)
        columns_by_name = {VALUE: value, KEY: _key(raw_keys, keys, columns), KAFKA_KEY: raw_keys}
        every = [*range(len(records.offsets))]
        return Decoded(_rows(records, columns, columns_by_name), every, of_kafka=True)


def _present_rows(items: pa.Array) -> Sequence[int]:
    return np.flatnonzero(items.is_valid()).tolist() if items.null_count else range(len(items))


def _inner(columns: pa.Schema) -> pa.Schema:
    """Return the fields of values as a table's columns."""
    return pa.schema([each for each in columns.field(VALUE).type if each.name not in {RAW, SCHEMA_ID}])


def _key_fields(columns: pa.Schema) -> pa.Schema:
    fields = [each for each in columns.field(KEY).type if each.name != RAW]
    return pa.schema([columns.field(KEY).with_type(pa.struct(fields))] if fields else [])


def _parts_by_record(read: Decoded, encoded: Encoded) -> dict[str, pa.Array]:
    """Return decoded parts by name, one row for each record, null if absent."""
    table, count = read.table, len(encoded.records.offsets)
    if table.num_rows != count:
        table = table.take(_row_indices([encoded.rows[row] for row in read.indices], count))
    return {name: one_array(column) for name, column in zip(table.column_names, table.columns, strict=True)}


def _row_indices(rows: Sequence[int], count: int) -> pa.Array:
    at = np.full(count, -1)
    at[np.array(rows, np.int64)] = np.arange(len(rows))
    return pa.array(at, mask=at < 0)


def _value(raw: pa.Array, schema_ids: pa.Array, read: Mapping[str, pa.Array], columns: pa.Schema) -> pa.Array:
    return _struct(columns.field(VALUE).type, {**read, RAW: raw, SCHEMA_ID: schema_ids})


def _key(raw: pa.Array, read: Mapping[str, pa.Array], columns: pa.Schema) -> pa.Array:
    kind, parts = columns.field(KEY).type, {RAW: raw}
    if read:
        names = [field.name for field in kind if field.name != RAW]
        parts |= dict(zip(names, read[KEY].flatten(), strict=True))
    return _struct(kind, parts)


def _struct(kind: pa.DataType, parts: Mapping[str, pa.Array]) -> pa.Array:
    """Return the bytes with their decoded parts; null if there are none."""
    raw = parts[RAW]
    mask = raw.is_null() if raw.null_count else None
    return pa.StructArray.from_arrays([parts[field.name] for field in kind], fields=list(kind), mask=mask)


def _rows(records: Chunk, columns: pa.Schema, made: Mapping[str, pa.Array]) -> pa.Table:
    headers = headers_column(records.headers, columns.field(KAFKA_HEADERS).type)
    return pa.table({**made, HEADERS: headers.cast(columns.field(HEADERS).type), KAFKA_HEADERS: headers})


def _schema_ids(schemas: KnownSchemas, values: Encoded) -> pa.Array:
    named, count = schema_ids(values, schemas), len(values.records.offsets)
    return named if len(named) == count else named.take(_row_indices(values.rows, count))
