"""A message's types as columns, identified by field numbers.

A message without fields, which no file can hold, is a boolean: true where it is there. Of a oneof each member
is a column.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_jobs.formats import tree
from spark_jobs.formats.lanes.lanes import Rows
from spark_jobs.formats.protobuf.plain import moment
from spark_jobs.formats.protobuf.types import Kind, Leaf, Message, Type
from spark_jobs.protocol.errors import fault
from spark_jobs.schema.writer_schema import Form, WriterColumns
from spark_jobs.values.ranges import bounds

UINT64_DIGITS = 20
_TYPES = {
    Kind.INT: "int",
    Kind.UINT32: "long",
    Kind.LONG: "long",
    Kind.UINT64: f"decimal({UINT64_DIGITS}, 0)",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
    Kind.BOOLEAN: "boolean",
    Kind.STRING: "string",
    Kind.BYTES: "binary",
    Kind.ENUM: "string",
    Kind.TIMESTAMP: "timestamptz",
    Kind.DURATION: "long",
    Kind.EMPTY: "boolean",
}
_FORMS = {Form.TEXT: "string", Form.NUMBER: "long"}


def columns_of(root: Message, name: str) -> WriterColumns:
    """Return the columns of the message with this full name; raises as ``tree.columns_of``."""
    if not root.fields:
        raise fault("schema-unsupported.no-fields")
    hint = "Rename the field in a new version of the schema, or keep the values as `raw` with `layout: flat`."
    return tree.columns_of(root.fields, _column, hint, message=f"{name}:")


def _column(kind: Type) -> str | Type | None:
    if not isinstance(kind, Leaf):
        return kind
    return _TYPES.get(kind.kind) if kind.form is None else _FORMS[kind.form]


# Numbers that lanes have read, as columns of the table's types.


_UINT = 1 << 32
_INT = bounds(pa.int32())
_NANOS, _MICROS = 1_000_000_000, 1_000_000
_MOST_SECONDS = (1 << 63) // _MICROS - 1


def leaf_column(leaf: Leaf, numbers: np.ndarray, rows: Rows, target: pa.DataType) -> pa.Array:  # noqa: PLR0911
    """Return unsigned numbers as a column of the type that ``leaf`` describes."""
    match leaf.kind:
        case Kind.BOOLEAN:
            return rows.array(numbers != 0)
        case Kind.INT:
            return rows.array(rows.within(numbers.view(np.int64), *_INT).astype(np.int32))
        case Kind.UINT32:
            return rows.array(rows.within(numbers.astype(np.int64), 0, _UINT - 1))
        case Kind.UINT64:
            return rows.decimals(numbers, np.zeros_like(numbers), target)
        case Kind.FLOAT:
            return rows.array(numbers.view(np.float32))
        case Kind.DOUBLE:
            return rows.array(numbers.view(np.float64))
        case Kind.ENUM:
            return _symbols(leaf, rows.array(rows.within(numbers.view(np.int64), *_INT)))
    return rows.array(numbers.view(np.int64))


def _symbols(leaf: Leaf, numbers: pa.Array) -> pa.Array:
    """Return an enum's numbers as symbols; a number without a symbol becomes text."""
    encoded = numbers.dictionary_encode()
    names = [leaf.symbols.get(number, str(number)) for number in encoded.dictionary.to_pylist()]
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(names, pa.string())).cast(pa.string())


def moment_column(
    seconds: np.ndarray, nanos: np.ndarray, rows: Rows, target: pa.DataType, leaf: Leaf
) -> pa.Array:
    """Return microseconds of a timestamp, whose nanoseconds are never negative, or of a duration."""
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
    return rows.array(rows.within(seconds * _MICROS + nanos // 1000, *bounds(target))).cast(target)
