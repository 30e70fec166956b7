"""Rows as one text each, equal for a PostgreSQL table and its mirror, for comparison.

A column is compared where both sides can write its values alike; the others are named.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
from pyiceberg.types import DecimalType, DoubleType, IcebergType

if TYPE_CHECKING:
    from decimal import Decimal

    from pyiceberg.table import Table

# How a column of a type of PostgreSQL is written; {} is the column.
_AS_TEXT = {
    **dict.fromkeys(("int2", "int4", "int8", "numeric", "bool", "uuid", "json", "jsonb", "xml"), "{}::text"),
    **dict.fromkeys(("text", "varchar", "citext", "name"), "{}::text"),
    "float4": "encode(float4send({}), 'hex')",
    "float8": "encode(float8send({}), 'hex')",
    "bytea": "encode({}, 'hex')",
    "date": "to_char({}, 'YYYY-MM-DD')",
    "time": "to_char({}, 'HH24:MI:SS.US')",
    "timestamp": "to_char({}, 'YYYY-MM-DD HH24:MI:SS.US')",
    "timestamptz": "to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')",
}
# The mirror's column may hold more: one that is given a narrower type stays as it is.
_AS_DECIMAL = "rtrim(rtrim(({} + 0.0)::text, '0'), '.')"
_AS_DOUBLE = "encode(float8send({}::float8), 'hex')"
_EXACT = {"int2", "int4", "int8", "numeric"}
_COLUMNS = """SELECT a.attname, t.typname FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
 WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
_SEPARATOR = "\x1f"
_BUCKET_DIGITS = 3  # of hexadecimal digits so many say a bucket
_SUM_DIGITS = 15

Sums = dict[str, tuple[int, int]]
# By key, its row; both as text.
Rows = dict[str, str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """``key`` and ``columns`` by name, with PostgreSQL's text form; ``left_out`` are not compared."""

    table: str
    key: tuple[str, ...]
    columns: dict[str, str]
    left_out: tuple[str, ...]

    @classmethod
    def of(cls, cursor: Any, name: tuple[str, str], key: Sequence[str], mirror: Table) -> Comparison:
        """Return the comparison for the columns of the database's table."""
        table = ".".join(map(_quoted, name))
        cursor.execute(_COLUMNS, (table,))
        there = dict(cursor.fetchall())
        kinds = {each.name: each.field_type for each in mirror.schema().fields}
        compared = {c: _form(t, kinds[c]) for c, t in there.items() if c in kinds and t in _AS_TEXT}
        return cls(table, tuple(key), compared, tuple(name for name in there if name not in compared))

    def sums(self, cursor: Any) -> Sums:
        """Return row count and sum of row hashes of the database, by bucket."""
        hashed = f"('x' || substr(md5({self._row}), 1, {_SUM_DIGITS}))::bit({4 * _SUM_DIGITS})::bigint"
        cursor.execute(
            f"SELECT substr(md5({self._key}), 1, {_BUCKET_DIGITS}), count(*), sum({hashed})"  # noqa: S608
            f" FROM {self.table} GROUP BY 1"
        )
        return {bucket: (count, int(total)) for bucket, count, total in cursor.fetchall()}

    def rows(self, cursor: Any, buckets: Iterable[str]) -> Rows:
        """Return the database's rows of these buckets."""
        cursor.execute(
            f"SELECT {self._key}, {self._row} FROM {self.table}"  # noqa: S608
            f" WHERE substr(md5({self._key}), 1, {_BUCKET_DIGITS}) = ANY(%s)",
            (list(buckets),),
        )
        return dict(cursor.fetchall())

    @property
    def _key(self) -> str:
        return _joined(self.columns[name].format(_quoted(name)) for name in self.key)

    @property
    def _row(self) -> str:
        return _joined(form.format(_quoted(name)) for name, form in self.columns.items())


def _form(there: str, kind: IcebergType) -> str:
    if isinstance(kind, DecimalType) and there in _EXACT:
        return _AS_DECIMAL
    return _AS_DOUBLE if isinstance(kind, DoubleType) and there == "float4" else _AS_TEXT[there]


def mirror_rows(table: Table, comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield the mirror's rows as the database writes them."""
    names = tuple(comparison.columns)
    for batch in table.scan(selected_fields=names).to_arrow_batch_reader():
        texts = [_texts(batch.column(name)) for name in names]
        keys = [texts[names.index(name)] for name in comparison.key]
        yield from zip(
            map(_of_parts, zip(*keys, strict=True)), map(_of_parts, zip(*texts, strict=True)), strict=True
        )


def bucket_of(key: str) -> str:
    """Return the bucket of a key."""
    return _md5(key)[:_BUCKET_DIGITS]


def sums_of(rows: Iterable[tuple[str, str]]) -> Sums:
    """Return row count and sum of row hashes, by bucket."""
    sums: Sums = {}
    for key, row in rows:
        bucket = bucket_of(key)
        count, total = sums.get(bucket, (0, 0))
        sums[bucket] = count + 1, total + int(_md5(row)[:_SUM_DIGITS], 16)
    return sums


def unlike(left: Mapping[str, Any], right: Mapping[str, Any]) -> list[str]:
    """Return the names with different values."""
    return sorted(name for name in {*left, *right} if left.get(name) != right.get(name))


def _texts(column: pa.Array) -> list[str | None]:
    kind = column.type
    if isinstance(kind, pa.UuidType):
        column, kind = column.storage, column.storage.type
    if pa.types.is_fixed_size_binary(kind):
        return [None if value is None else str(UUID(bytes=value)) for value in column.to_pylist()]
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [None if value is None else value.hex() for value in column.to_pylist()]
    if pa.types.is_floating(kind):
        width = kind.bit_width // 8
        whole = column.fill_null(0).to_numpy(zero_copy_only=False).astype(f">f{width}").tobytes().hex()
        valid = column.is_valid().to_pylist()
        return [
            whole[2 * width * n : 2 * width * (n + 1)] if there else None for n, there in enumerate(valid)
        ]
    if pa.types.is_decimal(kind):
        return [None if value is None else _bare(value) for value in column.to_pylist()]
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us"))
    texts: list[str | None] = column.cast(pa.string()).to_pylist()
    return texts


def _bare(value: Decimal) -> str:
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _of_parts(parts: Iterable[str | None]) -> str:
    return _SEPARATOR.join("~" if part is None else f"={part}" for part in parts)


def _joined(parts: Iterable[str]) -> str:
    return "concat_ws(E'\\x1f', " + ", ".join(f"coalesce('=' || {part}, '~')" for part in parts) + ")"


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
