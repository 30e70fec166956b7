"""Converts many values in JSON form to table columns at once; uncertain values are marked.

What is not sure here (out of range, no base64) is null and said to be; it is read again by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.formats.connect.plain import (
    bytes_of,
    decimal_of,
    number_text,
    scaled_text,
    time_text,
    uuid_of,
)
from spark_jobs.formats.connect.types import Kind, Leaf, Type
from spark_jobs.formats.tree import Array, Map, Record
from spark_jobs.schema.arrow_schema import column_of, remade
from spark_jobs.schema.writer_schema import UnreadableValueError
from spark_jobs.values.ranges import bounds

_WRITTEN_AS: dict[Kind, pa.DataType] = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INT: pa.int32(),
    Kind.LONG: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.DATE: pa.int32(),
    Kind.TIME: pa.int64(),
    Kind.TIMESTAMP: pa.int64(),
    Kind.CLOCK_TEXT: pa.int64(),
    Kind.INSTANT_TEXT: pa.int64(),
    Kind.ZONED: pa.timestamp("us", "UTC"),
    Kind.SCALED_TEXT: pa.struct([("scale", pa.int32()), ("value", pa.string())]),
}
_EACH_ONCE: dict[Kind, Callable[[Any, Leaf], Any]] = {
    Kind.CLOCK_TEXT: time_text,
    Kind.INSTANT_TEXT: time_text,
    Kind.BINARY: bytes_of,
    Kind.DECIMAL: decimal_of,
    Kind.NUMBER_TEXT: lambda text, leaf: number_text(text, leaf.scale),
    Kind.UUID: uuid_of,
}
_KEY = Leaf(Kind.STRING)
_COUNTED = (Kind.DATE, Kind.TIME, Kind.TIMESTAMP)


def written_type(kind: Type) -> pa.DataType:
    """Return the type of a value in JSON."""
    match kind:
        case Leaf():
            return _WRITTEN_AS.get(kind.kind, pa.string())
        case Array(item):
            return pa.list_(written_type(item))
        case Map(item):
            return pa.map_(pa.string(), written_type(item))
        case Record(fields):
            return pa.struct([(field.name, written_type(field.type)) for field in fields])


def made(values: pa.Array, kind: Type, column: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    """Return the values in the column's type, and the mask of uncertain ones."""
    if isinstance(kind, Leaf):
        return _leaf(values, kind, column)
    unsure = np.zeros(len(values), bool)

    def inner(inside: pa.Array, of: pa.DataType, name: str) -> pa.Array:
        array, doubtful = made(inside, types[name], of)
        # Around a list all are looked at again, if anything inside of one is to be.
        np.logical_or(unsure, doubtful if isinstance(kind, Record) else doubtful.any(), out=unsure)
        return array

    match kind:
        case Array(item):
            types = {"element": item}
        case Map(item):
            types = {"key": _KEY, "value": item}
        case Record(fields):
            types = {field.name: field.type for field in fields}
    return remade(values, column, inner), unsure


def _leaf(values: pa.Array, leaf: Leaf, column: pa.DataType) -> tuple[pa.Array, np.ndarray]:
    if leaf.kind in _COUNTED:
        lowest, highest = bounds(column, leaf.unit_us)
        # By whole units: times a thousand some would come round again.
        is_in = pc.and_(pc.greater_equal(values, lowest), pc.less_equal(values, highest))
        unsure = pc.invert(is_in.fill_null(True)).to_numpy(zero_copy_only=False)
        kept = pc.if_else(is_in, values, pa.scalar(None, values.type))
        return (kept if leaf.unit_us == 1 else pc.multiply(kept, leaf.unit_us)).cast(column), unsure
    if leaf.kind in _EACH_ONCE:
        return _each_once(values, _EACH_ONCE[leaf.kind], leaf, column)
    if leaf.kind is Kind.SCALED_TEXT:
        rows = values.to_pylist()
        texts = pa.array([_or_none(scaled_text, row, leaf) for row in rows], column)
        return texts, _lost(values, texts)
    return values.cast(column), np.zeros(len(values), bool)


def _each_once(
    values: pa.Array, read: Callable[[Any, Leaf], Any], leaf: Leaf, column: pa.DataType
) -> tuple[pa.Array, np.ndarray]:
    known = values.dictionary_encode()
    texts = known.dictionary.to_pylist()
    items = [_or_none(read, text, leaf) for text in texts]
    array = column_of(items, column).take(known.indices)
    return array, _lost(values, array)


def _lost(values: pa.Array, converted: pa.Array) -> np.ndarray:
    lost: np.ndarray = pc.and_(converted.is_null(), values.is_valid()).to_numpy(zero_copy_only=False)
    return lost


def _or_none(read: Callable[[Any, Leaf], Any], value: Any, leaf: Leaf) -> Any:
    try:
        return None if value is None else read(value, leaf)
    except UnreadableValueError:
        return None
