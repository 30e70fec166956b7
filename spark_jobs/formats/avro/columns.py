"""An Avro schema's types as columns.

A lone null is no column: it says nothing. A record in which there is nothing that is a column, which no file
can hold, is a boolean: true where the record is. A fixed of many bytes is binary, because each null of a
fixed column takes all of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from spark_jobs.formats import tree
from spark_jobs.formats.avro.types import Again, Field, Kind, Leaf, Type, Union, is_null
from spark_jobs.formats.tree import Record
from spark_jobs.schema.writer_schema import WriterColumns

VALUE = "value"
DURATION = ("months", "days", "millis")
MOST_DIGITS = 38
_MOST_FIXED_BYTES = 1024
# Of those that are not called as their column's type is.
_TYPES = {
    Kind.EMPTY: "boolean",
    Kind.BYTES: "binary",
    Kind.ENUM: "string",
    **dict.fromkeys((Kind.TIME_MILLIS, Kind.TIME_MICROS), "time"),
    **dict.fromkeys((Kind.TIMESTAMP_MILLIS, Kind.TIMESTAMP_MICROS, Kind.TIMESTAMP_NANOS), "timestamptz"),
    **dict.fromkeys((Kind.LOCAL_MILLIS, Kind.LOCAL_MICROS, Kind.LOCAL_NANOS), "timestamp"),
}
_DURATION = Record(tuple(Field(part, Leaf(Kind.LONG, "long")) for part in DURATION))


def top_fields(root: Type) -> tuple[Field, ...]:
    """Return the fields that become columns: a record's fields, or one field for the whole value."""
    return root.fields if isinstance(root, Record) and not is_whole(root) else (Field(VALUE, root),)


def is_whole(root: Type) -> bool:
    """True if one column holds the whole value."""
    return not isinstance(root, Record) or not has_columns(root)


def has_columns(kind: Type) -> bool:
    """True if any part of the type becomes a column."""
    return (
        any(not is_null(each.type) for each in kind.fields) if isinstance(kind, Record) else not is_null(kind)
    )


def columns_of(root: Type) -> WriterColumns:
    """Return the columns of a schema; raises as ``tree.columns_of``."""
    hint = "Rename the field in a new version of the schema, or keep values as `raw` with `layout: flat`."
    return tree.columns_of(_nonnull_fields(top_fields(root)), _column, hint, is_whole=is_whole(root))


def _column(kind: Type) -> str | Type | None:  # noqa: PLR0911  (a line for each type)
    match kind:
        case Leaf(Kind.DURATION):
            return _DURATION
        case Leaf(Kind.DECIMAL):
            is_held = kind.precision <= MOST_DIGITS
            return f"decimal({kind.precision}, {kind.scale})" if is_held else "string"
        case Leaf(Kind.FIXED):
            return f"fixed[{kind.size}]" if 0 < kind.size <= _MOST_FIXED_BYTES else "binary"
        case Leaf():
            return "string" if kind.as_text else _TYPES.get(kind.kind, kind.kind)
        case Again():
            return None
        case Union() if (only := kind.only) is not None:
            return _column(only.type)
        case Union():
            return Record(kind.members)
        case Record(fields):
            return Record(_nonnull_fields(fields)) if has_columns(kind) else "boolean"
    return kind


def _nonnull_fields(fields: Iterable[Field]) -> tuple[Field, ...]:
    return tuple(each for each in fields if not is_null(each.type))
