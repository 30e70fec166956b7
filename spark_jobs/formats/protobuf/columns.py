"""A message's types as columns, known by the numbers of their fields.

A message without fields, which no file can hold, is a boolean: true where it is there. Of a oneof each member
is a column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np
import pyarrow as pa
from pyiceberg import types as iceberg

from spark_jobs.formats.lanes.lanes import Rows
from spark_jobs.formats.protobuf.plain import FIRST_US, LAST_US, moment
from spark_jobs.formats.protobuf.types import Field, Kind, Leaf, Map, Message, Repeated, Type, refused
from spark_jobs.schema.inference import Field as Column
from spark_jobs.schema.inference import Primitive, by_lower_case, name_clash
from spark_jobs.schema.told import Form
from spark_jobs.schema.writer_schema import WriterColumns

UINT64_DIGITS = 20
_TYPES: dict[Kind, iceberg.IcebergType] = {
    Kind.INT: iceberg.IntegerType(),
    Kind.UINT32: iceberg.LongType(),
    Kind.LONG: iceberg.LongType(),
    Kind.UINT64: iceberg.DecimalType(UINT64_DIGITS, 0),
    Kind.FLOAT: iceberg.FloatType(),
    Kind.DOUBLE: iceberg.DoubleType(),
    Kind.BOOLEAN: iceberg.BooleanType(),
    Kind.STRING: iceberg.StringType(),
    Kind.BYTES: iceberg.BinaryType(),
    Kind.ENUM: iceberg.StringType(),
    Kind.TIMESTAMP: iceberg.TimestamptzType(),
    Kind.DURATION: iceberg.LongType(),
    Kind.JSON: iceberg.StringType(),
    Kind.AGAIN: iceberg.StringType(),
    Kind.EMPTY: iceberg.BooleanType(),
}
_FORMS: dict[Form, iceberg.IcebergType] = {Form.TEXT: iceberg.StringType(), Form.NUMBER: iceberg.LongType()}


def columns_of(root: Message, name: str) -> WriterColumns:
    """Return the columns of the message of this full name.

    Raises ``ConfigError`` (``schema-unsupported``) for names that cannot stand beside each other in a table,
    and for a message without fields.
    """
    if not root.fields:
        raise refused("the message has no fields", "Name another, or keep the values as `raw`.")
    build = _Columns(name)
    struct = iceberg.StructType(*build.fields(root.fields, (), ()))
    return WriterColumns(struct, build.identities, as_text=tuple(build.as_text))


class _Columns:
    """``path`` is of names, ``numbers`` of what a column is known by in the message of that name."""

    def __init__(self, message: str) -> None:
        self._message = message
        self._ids = count(1)
        self.identities: dict[int, str] = {}
        self.as_text: list[str] = []

    def fields(
        self, fields: Sequence[Field], path: tuple[str, ...], numbers: tuple[str, ...]
    ) -> Iterator[iceberg.NestedField]:
        names = Counter(each.name for each in fields)
        siblings = by_lower_case(Column(name, Primitive.STRING) for name in names)
        for each in fields:
            if (clash := name_clash(each.name, siblings, is_top=not path)) is not None:
                hint = "Rename the field in a new version of the schema, or keep the values as `raw`."
                raise refused(f"fields that cannot be columns: {clash}", hint, field=".".join(path) or None)
        for each in fields:
            field_id, known = next(self._ids), (*numbers, str(each.number))
            self.identities[field_id] = f"{self._message}:{'.'.join(known)}"
            kind = self._type(each.type, (*path, each.name), known)
            yield iceberg.NestedField(field_id, each.name, kind, required=False, doc=each.doc)

    def _type(self, kind: Type, path: tuple[str, ...], numbers: tuple[str, ...]) -> iceberg.IcebergType:
        match kind:
            case Leaf():
                if kind.kind in (Kind.AGAIN, Kind.JSON):
                    self.as_text.append(".".join(path))
                return _TYPES[kind.kind] if kind.form is None else _FORMS[kind.form]
            case Repeated(element):
                element_id = next(self._ids)
                inner = self._type(element, (*path, "element"), (*numbers, "element"))
                return iceberg.ListType(element_id, inner, element_required=False)
            case Map(key, value):
                key_id, value_id = next(self._ids), next(self._ids)
                inner = self._type(value, (*path, "value"), (*numbers, "value"))
                return iceberg.MapType(key_id, _TYPES[key.kind], value_id, inner, value_required=False)
            case Message(fields):
                return iceberg.StructType(*self.fields(fields, path, numbers))


# Numbers that lanes have read, as columns of the table's types.


_INT, _UINT = 1 << 31, 1 << 32
_NANOS, _MICROS = 1_000_000_000, 1_000_000
_MOST_SECONDS = (1 << 63) // _MICROS - 1


def leaf_column(leaf: Leaf, numbers: np.ndarray, rows: Rows, target: pa.DataType) -> pa.Array:  # noqa: PLR0911
    """Return numbers without a sign, which stand for what ``leaf`` says, as a column."""
    match leaf.kind:
        case Kind.BOOLEAN:
            return rows.array(numbers != 0)
        case Kind.INT:
            return rows.array(rows.within(numbers.view(np.int64), -_INT, _INT - 1).astype(np.int32))
        case Kind.UINT32:
            return rows.array(rows.within(numbers.astype(np.int64), 0, _UINT - 1))
        case Kind.UINT64:
            return rows.decimals(numbers, np.zeros_like(numbers), target)
        case Kind.FLOAT:
            return rows.array(numbers.view(np.float32))
        case Kind.DOUBLE:
            return rows.array(numbers.view(np.float64))
        case Kind.ENUM:
            return _symbols(leaf, rows.array(rows.within(numbers.view(np.int64), -_INT, _INT - 1)))
    return rows.array(numbers.view(np.int64))


def _symbols(leaf: Leaf, numbers: pa.Array) -> pa.Array:
    """Return an enum's numbers as symbols, one without any as its own text."""
    encoded = numbers.dictionary_encode()
    names = [leaf.symbols.get(number, str(number)) for number in encoded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(names, pa.string())).cast(pa.string())


def moment_column(
    seconds: np.ndarray, nanos: np.ndarray, rows: Rows, target: pa.DataType, leaf: Leaf
) -> pa.Array:
    """Return microseconds: of a time, whose nanoseconds are never below zero, or of a duration."""
    if leaf.form is not None:
        parts = [rows.array(seconds), rows.array(nanos)]
        both = pa.StructArray.from_arrays(parts, names=["seconds", "nanos"], mask=rows.nulls)
        return rows.looked_at(both, lambda each: moment(**each, kind=leaf), target)
    is_time = leaf.kind is Kind.TIMESTAMP
    seconds = rows.within(seconds, -_MOST_SECONDS, _MOST_SECONDS)
    nanos = rows.within(nanos, 0 if is_time else 1 - _NANOS, _NANOS - 1)
    is_odd = nanos % 1000 != 0
    if not is_time:
        is_odd |= np.sign(seconds) * np.sign(nanos) < 0
    rows.doubt(is_odd)
    micros = seconds * _MICROS + nanos // 1000
    return rows.array(rows.within(micros, FIRST_US, LAST_US) if is_time else micros).cast(target)
