"""Rows of an archive: every record is one, with its bytes; what can be read of them stands beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from spark_jobs.config.new_fields import Growth, NewFields
from spark_jobs.records.by_schema import SchemaDecoder, schema_ids
from spark_jobs.records.by_schema_plain import PlainSchemaDecoder, is_storable
from spark_jobs.records.decoder import Decoded, Decoder, PlainDecoder, PlainRows
from spark_jobs.records.encoded import Encoded
from spark_jobs.records.shape import headers_column
from spark_jobs.schema.archive_columns import HEADERS, KEY, RAW, SCHEMA_ID, VALUE
from spark_jobs.schema.arrow_schema import column_of, no_rows
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.known_schemas import KnownSchemas
from spark_jobs.schema.metadata_columns import HEADERS as KAFKA_HEADERS
from spark_jobs.schema.metadata_columns import KEY as KAFKA_KEY

if TYPE_CHECKING:
    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.protocol.kept_columns import KeptColumn


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
        there = _there(records.values)
        values = self.values.decode(_taken(records, there), _inner(columns))
        keyed = _there(records.keys)
        keys = (
            None if self.keys is None else self.keys.read(Encoded.keys(records, keyed), _key_fields(columns))
        )
        new = [each.new_fields for each in (values, keys) if each is not None and each.new_fields is not None]
        if new:
            return Decoded(no_rows(columns), [], new_fields=new[0].merge(new[-1]))
        own: dict[str, Sequence[Any]] = {RAW: records.values, SCHEMA_ID: self._schema_ids(records, there)}
        made = {
            VALUE: _struct(columns.field(VALUE).type, own, values.table, _places(values, there, records)),
            KEY: _key(records, keys, keyed, columns.field(KEY).type),
            HEADERS: headers_column(records.headers, columns.field(HEADERS).type),
            KAFKA_KEY: pa.array(records.keys, pa.binary()),
            KAFKA_HEADERS: headers_column(records.headers, columns.field(KAFKA_HEADERS).type),
        }
        unread = Counter({VALUE: len(values.bad), KEY: len(keys.bad) if keys else 0})
        ignored = Counter(values.ignored) + +unread
        return Decoded(pa.table(made), ignored=ignored, is_archive=True)

    def observe(self, records: Chunk) -> Evidence:
        """See ``Decoder``; every record can be a row."""
        seen = self.values.observe(records)
        if self.keys is not None:
            names = self.keys.seen(Encoded.keys(records, _there(records.keys)))
            seen = seen.merge(Evidence(schemas=names))
        return replace(seen, records=len(records.offsets), undecodable=0)

    def _schema_ids(self, records: Chunk, there: Sequence[int]) -> list[str | None]:
        return _schema_ids(self.schemas, records, there)


@dataclass(frozen=True, slots=True)
class PlainArchiveDecoder:
    """The same for ``audit``."""

    values: PlainDecoder
    schemas: KnownSchemas
    keys: PlainSchemaDecoder | None
    takes_tombstones: ClassVar[bool] = True

    def decode(self, records: Chunk, columns: pa.Schema) -> PlainRows:
        """See ``PlainDecoder``."""
        there = _there(records.values)
        plain = self.values.decode(_taken(records, there), _inner(columns))
        at: list[int | None] = [None] * len(records.offsets)
        for place, row in enumerate(plain.rows):
            at[there[row]] = place
        own: dict[str, Sequence[Any]] = {
            RAW: records.values,
            SCHEMA_ID: _schema_ids(self.schemas, records, there),
        }
        made = {
            VALUE: _struct(columns.field(VALUE).type, own, plain.table, at),
            KEY: self._keys(records, columns),
            HEADERS: headers_column(records.headers, columns.field(HEADERS).type),
            KAFKA_KEY: pa.array(records.keys, pa.binary()),
            KAFKA_HEADERS: headers_column(records.headers, columns.field(KAFKA_HEADERS).type),
        }
        return PlainRows(pa.table(made), [*range(len(records.offsets))], [], is_archive=True)

    def _keys(self, records: Chunk, columns: pa.Schema) -> pa.Array:
        keyed, own = _there(records.keys), _key_fields(columns)
        read: dict[int, Any] = {} if self.keys is None else self.keys.read(Encoded.keys(records, keyed))
        right = {keyed[at]: row[KEY] for at, row in read.items() if is_storable(row, own)}
        rows = [
            None if key is None else {RAW: key, **(right.get(index) or {})}
            for index, key in enumerate(records.keys)
        ]
        return column_of([_only(row, columns.field(KEY).type) for row in rows], columns.field(KEY).type)


def _there(items: Sequence[bytes | None]) -> list[int]:
    return [index for index, item in enumerate(items) if item is not None]


def _taken(records: Chunk, there: Sequence[int]) -> Chunk:
    return records if len(there) == len(records.offsets) else records.take(there)


def _inner(columns: pa.Schema) -> pa.Schema:
    """Return the fields of values as a table's columns, with those that every decoder makes."""
    fields = [each for each in columns.field(VALUE).type if each.name not in {RAW, SCHEMA_ID}]
    return pa.schema([*fields, columns.field(KAFKA_KEY), columns.field(KAFKA_HEADERS)])


def _key_fields(columns: pa.Schema) -> pa.Schema:
    fields = [each for each in columns.field(KEY).type if each.name != RAW]
    return pa.schema([columns.field(KEY).with_type(pa.struct(fields))] if fields else [])


def _places(decoded: Decoded, there: Sequence[int], records: Chunk) -> list[int | None]:
    """Return for each record the row of what was read of its value, None where there is none."""
    at: list[int | None] = [None] * len(records.offsets)
    for place, row in enumerate(decoded.indices):
        at[there[row]] = place
    return at


def _struct(
    kind: pa.DataType, own: dict[str, Sequence[Any]], read: pa.Table, at: Sequence[int | None]
) -> pa.Array:
    """Return the bytes with what was read of them; null where there are none."""
    count = len(at)
    rows = None if read.num_rows == count else pa.array(at, pa.int64())
    parts = []
    for field in kind:
        if field.name in own:
            parts.append(pa.array(own[field.name], field.type))
        else:
            column = read.column(field.name)
            taken = column if rows is None else column.take(rows)
            joined = taken.combine_chunks()
            parts.append(pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined)
    return pa.StructArray.from_arrays(
        parts, fields=list(kind), mask=pa.array(own[RAW], pa.binary()).is_null()
    )


def _key(records: Chunk, keys: Decoded | None, keyed: Sequence[int], kind: pa.DataType) -> pa.Array:
    own: dict[str, Sequence[Any]] = {RAW: records.keys}
    if keys is None or kind.num_fields == 1:
        return _struct(kind, own, pa.table({}), [None] * len(records.keys))
    at: list[int | None] = [None] * len(records.keys)
    for place, row in enumerate(keys.indices):
        at[keyed[row]] = place
    column = keys.table.column(KEY).combine_chunks()
    parts = (
        column.flatten()
        if not isinstance(column, pa.ChunkedArray)
        else pa.concat_arrays(column.chunks).flatten()
    )
    names = [field.name for field in kind if field.name != RAW]
    return _struct(kind, own, pa.table(dict(zip(names, parts, strict=True))), at)


def _schema_ids(schemas: KnownSchemas, records: Chunk, there: Sequence[int]) -> list[str | None]:
    ids: list[str | None] = [None] * len(records.offsets)
    for index, name in schema_ids(Encoded.values(records, there), schemas).items():
        ids[there[index]] = name
    return ids


def _only(row: dict[str, Any] | None, kind: pa.DataType) -> dict[str, Any] | None:
    return None if row is None else {field.name: row.get(field.name) for field in kind}
