"""An Avro schema's types as columns.

A lone null is no column: it says nothing. A record in which there is nothing that is a column, which no file
can hold, is a boolean: true where the record is. A fixed of many bytes is binary, because each null of a
fixed column takes all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count, islice, product

from pyiceberg.schema import Schema, index_by_name
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from spark_jobs.formats.avro.types import (
    Again,
    Array,
    Field,
    Kind,
    Leaf,
    Map,
    Record,
    Type,
    Union,
    is_null,
    refused,
)
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.inference import Field as Column
from spark_jobs.schema.inference import Primitive, by_lower_case, name_clash
from spark_jobs.schema.writer_schema import WriterColumns

VALUE = "value"
DURATION = ("months", "days", "millis")
MOST_DIGITS = 38
_MOST_FIXED_BYTES = 1024
_MOST_OLD_PATHS = 16
_TYPES: dict[Kind, IcebergType] = {
    Kind.BOOLEAN: BooleanType(),
    Kind.EMPTY: BooleanType(),
    Kind.INT: IntegerType(),
    Kind.LONG: LongType(),
    Kind.FLOAT: FloatType(),
    Kind.DOUBLE: DoubleType(),
    Kind.BYTES: BinaryType(),
    Kind.STRING: StringType(),
    Kind.ENUM: StringType(),
    Kind.UUID: UUIDType(),
    Kind.DATE: DateType(),
    Kind.TIME_MILLIS: TimeType(),
    Kind.TIME_MICROS: TimeType(),
    Kind.TIMESTAMP_MILLIS: TimestamptzType(),
    Kind.TIMESTAMP_MICROS: TimestamptzType(),
    Kind.TIMESTAMP_NANOS: TimestamptzType(),
    Kind.LOCAL_MILLIS: TimestampType(),
    Kind.LOCAL_MICROS: TimestampType(),
    Kind.LOCAL_NANOS: TimestampType(),
}
_DURATION_FIELDS = tuple(Field(part, Leaf(Kind.LONG, "long")) for part in DURATION)


def top_fields(root: Type) -> tuple[Field, ...]:
    """Return what the columns are made of: a record's fields, else one of all of it."""
    return root.fields if isinstance(root, Record) and not is_whole(root) else (Field(VALUE, root),)


def is_whole(root: Type) -> bool:
    """True if one column holds all of it."""
    return not isinstance(root, Record) or not has_columns(root)


def has_columns(kind: Type) -> bool:
    """True if it holds anything that is a column."""
    return (
        any(not is_null(each.type) for each in kind.fields) if isinstance(kind, Record) else not is_null(kind)
    )


def only_member(union: Union) -> Field | None:
    """Return the branch that is the column by itself, None where each is a field of its own."""
    return union.members[0] if len(union.members) == 1 else None


def is_wide(leaf: Leaf) -> bool:
    """True of a fixed that is a binary column."""
    return not 0 < leaf.size <= _MOST_FIXED_BYTES


def columns_of(root: Type) -> WriterColumns:
    """Return the columns of a schema.

    Raises ``ConfigError`` (``schema-unsupported``) for names that cannot stand beside each other in a table.
    """
    build = _Columns()
    struct = StructType(*build.fields(top_fields(root), (), ((),)))
    try:
        index_by_name(Schema(*struct.fields))
    except ValueError as error:
        raise _unnamed(str(error)) from error
    as_text = tuple(build.as_text)
    return WriterColumns(
        struct, build.identities, build.aliases, as_text, is_whole=is_whole(root), told=build.told
    )


class _Columns:
    """``path`` is of a struct's fields; ``old`` are all paths that they were known by, this one first."""

    def __init__(self) -> None:
        self._ids = count(1)
        self.identities: dict[int, str] = {}
        self.aliases: dict[int, tuple[str, ...]] = {}
        self.as_text: list[str] = []
        self.told: dict[str, str] = {}

    def fields(
        self, fields: Sequence[Field], path: tuple[str, ...], old: Sequence[tuple[str, ...]]
    ) -> Iterator[NestedField]:
        fields = [each for each in fields if not is_null(each.type)]
        names = Counter(each.name for each in fields)
        siblings = by_lower_case(Column(name, Primitive.STRING) for name in names)
        for each in fields:
            clash = name_clash(each.name, siblings, is_top=not path)
            if "." in each.name or names[each.name] > 1:
                clash = f"{each.name} has a dot" if "." in each.name else f"{each.name} is there twice"
            if clash is not None:
                raise _unnamed(clash, ".".join(path) or None)
        for each in fields:
            field_id, here = next(self._ids), (*path, each.name)
            known = [
                *islice(
                    ((*way, name) for way, name in product(old, (each.name, *each.aliases))), _MOST_OLD_PATHS
                )
            ]
            self.identities[field_id] = ".".join(here)
            if len(known) > 1:
                self.aliases[field_id] = tuple(".".join(way) for way in known if way != here)
            if told := _told_beside(each, is_top=not path):
                self.told[".".join(here)] = told
            yield NestedField(field_id, each.name, self._type(each.type, here, known), False, each.doc)

    def _type(self, kind: Type, path: tuple[str, ...], old: Sequence[tuple[str, ...]]) -> IcebergType:  # noqa: PLR0911
        match kind:
            case Leaf(Kind.DURATION):
                return StructType(*self.fields(_DURATION_FIELDS, path, old))
            case Leaf():
                return StringType() if kind.as_text else _leaf_type(kind)
            case Again():
                self.as_text.append(".".join(path))
                return StringType()
            case Array(items):
                return ListType(next(self._ids), self._inner(items, path, old, "element"), False)
            case Map(values):
                key_id, value_id = next(self._ids), next(self._ids)
                return MapType(key_id, StringType(), value_id, self._inner(values, path, old, "value"), False)
            case Union() if (only := only_member(kind)) is not None:
                return self._type(only.type, path, old)
            case Union():
                return StructType(*self.fields(kind.members, path, old))
            case Record(fields):
                return StructType(*self.fields(fields, path, old)) if has_columns(kind) else BooleanType()

    def _inner(
        self, kind: Type, path: tuple[str, ...], old: Sequence[tuple[str, ...]], step: str
    ) -> IcebergType:
        return self._type(kind, (*path, step), [(*way, step) for way in old])


def _told_beside(field: Field, *, is_top: bool) -> str | None:
    """Return what is said of a meaning that Avro passes over; nothing of one that its type has as well."""
    only = only_member(field.type) if isinstance(field.type, Union) else field
    leaf, meant = only and only.type, field.beside.lower()
    if not meant or not isinstance(leaf, Leaf) or leaf.kind != leaf.base:
        return None
    told = f"{field.beside} stands beside its type, where Avro looks at none: {leaf.base} as it is"
    if not is_top or leaf.kind is not Kind.LONG or "timestamp" not in meant or "nano" in meant:
        return told
    kind = "timestamp" if "local" in meant or "debezium" in meant else "timestamptz"
    form = "epoch_us" if "micro" in meant else "epoch_ms"
    return f"{told}; `columns: {{{field.name}: {{type: {kind}, from: {form}}}}}` makes times, in a flat table"


def _leaf_type(leaf: Leaf) -> IcebergType:
    match leaf.kind:
        case Kind.DECIMAL if leaf.precision <= MOST_DIGITS:
            return DecimalType(leaf.precision, leaf.scale)
        case Kind.DECIMAL:
            return StringType()
        case Kind.FIXED:
            return BinaryType() if is_wide(leaf) else FixedType(leaf.size)
    return _TYPES[leaf.kind]


def _unnamed(why: str, field: str | None = None) -> ConfigError:
    hint = "Rename the field in a new version of the schema, or keep the topic's values as `raw`."
    return refused(f"fields that cannot be columns: {why}", hint, field=field)
