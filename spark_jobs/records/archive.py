"""Rows of an archive: every record is one, with its bytes; what can be read of them stands beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from spark_jobs.config.columns import Growth, NewFields
from spark_jobs.formats.lanes.packed_values import PackedValues
from spark_jobs.records.by_schema import SchemaDecoder, schema_ids
from spark_jobs.records.by_schema_plain import PlainSchemaDecoder, is_storable
from spark_jobs.records.decoder import Decoded, Decoder, PlainDecoder, PlainRows
from spark_jobs.records.framing import Encoded
from spark_jobs.records.shape import headers_column
from spark_jobs.schema.archive_columns import HEADERS, KEY, RAW, SCHEMA_ID, VALUE
from spark_jobs.schema.arrow_schema import column_of, no_rows, one_array
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.metadata_columns import HEADERS as KAFKA_HEADERS
from spark_jobs.schema.metadata_columns import KEY as KAFKA_KEY

if TYPE_CHECKING:
    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.protocol.kept import KeptColumn


@dataclass(frozen=True, slots=True)
class ArchiveDecoder:
    """Values by ``values``, keys by ``keys``; what they cannot read is null beside the bytes, and counted."""

    values: Decoder
    schemas: KnownSchemas
    keys: SchemaDecoder | None
    takes_tombstones: ClassVar[bool] = True

    @property
    def growth(self) -> Growth:
        """See ``Decoder``."""
        return self.values.growth

    def under(self, growth: Growth) -> ArchiveDecoder:
        """See ``Decoder``; what gets no column is in the bytes."""
        growth = growth if growth.room else replace(growth, new_fields=NewFields.IGNORE)
        return replace(self, values=self.values.under(growth), keys=self.keys and self.keys.under(growth))

    def keeping(self, kept: Sequence[KeptColumn], generation: int) -> ArchiveDecoder:  # noqa: ARG002
        """See ``Decoder``; no column of an archive is given another type."""
        return self

    def decode(self, records: Chunk, columns: pa.Schema) -> Decoded:
        """See ``Decoder``; of the columns without ``kafka``, and without a bad value."""
        packed, raw = PackedValues.beside_column(records.values)
        there = _there(raw)
        is_whole = len(there) == len(packed)
        named = Encoded(records, there, packed if is_whole else packed.take(np.array(there, np.intp)))
        taken = _taken(records, there)
        if isinstance(self.values, SchemaDecoder):  # which would pack them once more
            taken = taken.with_values(named.items)
        values = self.values.decode(taken, _inner(columns))
        beside = _beside(records, values, columns)
        keyed = _there(beside[KAFKA_KEY])
        keys = (
            None if self.keys is None else self.keys.read(Encoded.keys(records, keyed), _key_fields(columns))
        )
        new = [each.new_fields for each in (values, keys) if each is not None and each.new_fields is not None]
        if new:
            return Decoded(no_rows(columns), [], new_fields=new[0].merge(new[-1]))
        own = {RAW: raw, SCHEMA_ID: _schema_ids(self.schemas, named)}
        at = _places(values, there, len(raw))
        made = {
            VALUE: _struct(columns.field(VALUE).type, own, values.table, at),
            KEY: _key(beside[KAFKA_KEY], keys, keyed, columns.field(KEY).type),
            HEADERS: beside[KAFKA_HEADERS].cast(columns.field(HEADERS).type),
            **beside,
        }
        unread = Counter({VALUE: len(values.bad), KEY: len(keys.bad) if keys else 0})
        ignored = Counter(values.ignored) + +unread
        return Decoded(pa.table(made), ignored=ignored, is_archive=True)

    def observe(self, records: Chunk) -> Evidence:
        """See ``Decoder``; every record can be a row."""
        seen = self.values.observe(records)
        if self.keys is not None:
            names = self.keys.new(Encoded.keys(records, _there(pa.array(records.keys, pa.binary()))))
            seen = seen.merge(Evidence(schemas=names))
        return replace(seen, records=len(records.offsets), undecodable=0)


@dataclass(frozen=True, slots=True)
class PlainArchiveDecoder:
    """The same for ``audit``."""

    values: PlainDecoder
    schemas: KnownSchemas
    keys: PlainSchemaDecoder | None
    takes_tombstones: ClassVar[bool] = True

    def decode(self, records: Chunk, columns: pa.Schema) -> PlainRows:
        """See ``PlainDecoder``."""
        raw = pa.array(records.values, pa.binary())
        there = _there(raw)
        plain = self.values.decode(_taken(records, there), _inner(columns))
        own = {RAW: raw, SCHEMA_ID: _schema_ids(self.schemas, Encoded.values(records, there))}
        at = _placed(plain.rows, there, len(records.offsets))
        made = {
            VALUE: _struct(columns.field(VALUE).type, own, plain.table, at),
            KEY: self._keys(records, columns),
            HEADERS: headers_column(records.headers, columns.field(HEADERS).type),
            KAFKA_KEY: pa.array(records.keys, pa.binary()),
            KAFKA_HEADERS: headers_column(records.headers, columns.field(KAFKA_HEADERS).type),
        }
        return PlainRows(pa.table(made), [*range(len(records.offsets))], [], is_archive=True)

    def _keys(self, records: Chunk, columns: pa.Schema) -> pa.Array:
        keyed, own = _there(pa.array(records.keys, pa.binary())), _key_fields(columns)
        read: dict[int, Any] = {} if self.keys is None else self.keys.read(Encoded.keys(records, keyed), {})
        right = {keyed[at]: row[KEY] for at, row in read.items() if is_storable(row, own)}
        rows = [
            None if key is None else {RAW: key, **(right.get(index) or {})}
            for index, key in enumerate(records.keys)
        ]
        return column_of([_only(row, columns.field(KEY).type) for row in rows], columns.field(KEY).type)


def _there(items: pa.Array) -> Sequence[int]:
    return np.flatnonzero(items.is_valid()).tolist() if items.null_count else range(len(items))


def _taken(records: Chunk, there: Sequence[int]) -> Chunk:
    return records if len(there) == len(records.offsets) else records.take(there)


def _inner(columns: pa.Schema) -> pa.Schema:
    """Return the fields of values as a table's columns, with those that every decoder makes."""
    fields = [each for each in columns.field(VALUE).type if each.name not in {RAW, SCHEMA_ID}]
    return pa.schema([*fields, columns.field(KAFKA_KEY), columns.field(KAFKA_HEADERS)])


def _key_fields(columns: pa.Schema) -> pa.Schema:
    fields = [each for each in columns.field(KEY).type if each.name != RAW]
    return pa.schema([columns.field(KEY).with_type(pa.struct(fields))] if fields else [])


def _beside(records: Chunk, values: Decoded, columns: pa.Schema) -> dict[str, pa.Array]:
    """Return keys and headers of all records, which were made of those whose values were read."""
    if values.table.num_rows == len(records.offsets):
        return {name: one_array(values.table.column(name)) for name in (KAFKA_KEY, KAFKA_HEADERS)}
    return {
        KAFKA_KEY: pa.array(records.keys, pa.binary()),
        KAFKA_HEADERS: headers_column(records.headers, columns.field(KAFKA_HEADERS).type),
    }


def _places(read: Decoded, there: Sequence[int], count: int) -> pa.Array | None:
    """Return for each record the row of what was read of it, null where there is none; None: row by row."""
    return None if read.table.num_rows == count else _placed(read.indices, there, count)


def _placed(rows: Sequence[int], there: Sequence[int], count: int) -> pa.Array:
    at = np.full(count, -1)
    at[np.array(there, np.int64)[np.array(rows, np.int64)]] = np.arange(len(rows))
    return pa.array(at, mask=at < 0)


def _struct(kind: pa.DataType, own: Mapping[str, pa.Array], read: pa.Table, at: pa.Array | None) -> pa.Array:
    """Return the bytes with what was read of them; null where there are none."""
    parts = []
    for field in kind:
        if field.name in own:
            parts.append(own[field.name])
        else:
            column = read.column(field.name)
            parts.append(one_array(column if at is None else column.take(at)))
    is_null = own[RAW].is_null() if own[RAW].null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=is_null)


def _key(raw: pa.Array, keys: Decoded | None, keyed: Sequence[int], kind: pa.DataType) -> pa.Array:
    if keys is None or kind.num_fields == 1:
        return _struct(kind, {RAW: raw}, pa.table({}), None)
    parts = one_array(keys.table.column(KEY)).flatten()
    names = [field.name for field in kind if field.name != RAW]
    read = pa.table(dict(zip(names, parts, strict=True)))
    return _struct(kind, {RAW: raw}, read, _places(keys, keyed, len(raw)))


def _schema_ids(schemas: KnownSchemas, values: Encoded) -> pa.Array:
    named, count = schema_ids(values, schemas), len(values.records.offsets)
    return named if len(named) == count else named.take(_placed(range(len(named)), values.rows, count))


def _only(row: dict[str, Any] | None, kind: pa.DataType) -> dict[str, Any] | None:
    return None if row is None else {field.name: row.get(field.name) for field in kind}
