"""Values without others inside, which lanes have passed over, as columns of the table's types.

Each takes what it was told where its values are, and which of them the rows are; a row whose value no column
can hold is put in doubt.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_jobs.formats.avro.columns import DURATION, MOST_DIGITS
from spark_jobs.formats.avro.plain import CONVERSIONS, TEXTS
from spark_jobs.formats.avro.types import Kind, Leaf
from spark_jobs.formats.lanes.lanes import Rows
from spark_jobs.formats.lanes.packed_values import binary_column, words_at
from spark_jobs.values.ranges import bounds

_INT_BITS, _LONG_BYTES = 32, 8
_UUID_BYTES = 16
_DASHES = np.array([8, 13, 18, 23])
_DIGITS = np.array([at for at in range(36) if at not in _DASHES])
_NO_DIGIT = 255
_HEX = np.full(256, _NO_DIGIT, np.uint8)
for _digit in b"0123456789abcdefABCDEF":
    _HEX[_digit] = int(chr(_digit), 16)


def number_column(leaf: Leaf, numbers: np.ndarray, rows: Rows, target: pa.DataType) -> pa.Array:
    """Return what is written as an integer."""
    if leaf.as_text:
        return rows.looked_at(rows.array(numbers), TEXTS[leaf.kind], target)
    unit = 1
    match leaf.kind:
        case Kind.LONG:
            return rows.array(numbers)
        case Kind.ENUM:
            at = rows.within(numbers, 0, len(leaf.symbols) - 1)
            return pa.array(leaf.symbols, pa.string()).take(rows.array(at))
        case Kind.TIME_MILLIS | Kind.TIMESTAMP_MILLIS | Kind.LOCAL_MILLIS:
            unit = 1000
        case Kind.TIMESTAMP_NANOS | Kind.LOCAL_NANOS:
            rows.doubt(numbers % 1000 != 0)
            numbers = numbers // 1000
    held = rows.within(numbers, *bounds(target, unit))
    stored = held.astype(np.int32) if target.bit_width == _INT_BITS else held
    return rows.array(stored if unit == 1 else stored * unit).cast(target)


def piece_column(  # noqa: PLR0911  (a line for each kind)
    leaf: Leaf, begins: np.ndarray, sizes: np.ndarray, rows: Rows, target: pa.DataType
) -> pa.Array:
    """Return what is written as bytes, from ``begins`` on."""
    match leaf.kind:
        case Kind.BOOLEAN:
            numbers = np.frombuffer(rows.data, np.uint8)[begins]
            return rows.array(rows.within(numbers, 0, 1) == 1)
        case Kind.DOUBLE:
            return rows.array(words_at(rows.data, begins).view(np.float64))
        case Kind.FLOAT:
            return rows.array(words_at(rows.data, begins).astype(np.uint32).view(np.float32))
        case Kind.DURATION:
            return _durations(begins, rows, target)
        case Kind.DECIMAL if leaf.precision <= MOST_DIGITS and sizes.max(initial=0) <= _LONG_BYTES:
            return _decimals(leaf, begins, sizes, rows)
        case Kind.STRING:
            return rows.texts(begins, begins + sizes)
    pieces = binary_column(rows.data, begins, begins + sizes, rows.is_null)
    match leaf.kind:
        case Kind.UUID if leaf.base == "string":
            return _uuids(begins, sizes, rows, target)
        case Kind.DECIMAL:
            return _each(leaf, pieces, rows, target)
    return pieces.cast(pa.binary(_UUID_BYTES)).cast(target) if leaf.kind is Kind.UUID else pieces.cast(target)


def _durations(begins: np.ndarray, rows: Rows, target: pa.DataType) -> pa.Array:
    words = [words_at(rows.data, begins + 4 * part) for part in range(3)]
    parts = [rows.array(each.astype(np.uint32).astype(np.int64)) for each in words]
    return pa.StructArray.from_arrays(parts[: len(DURATION)], fields=list(target), mask=rows.nulls)


def _decimals(leaf: Leaf, begins: np.ndarray, sizes: np.ndarray, rows: Rows) -> pa.Array:
    """Return decimals of up to eight bytes."""
    words = words_at(rows.data, begins).byteswap().view(np.int64)
    numbers = np.where(sizes == 0, 0, words >> (64 - 8 * np.maximum(sizes, 1)))
    numbers = rows.within(numbers, 1 - 10**leaf.precision, 10**leaf.precision - 1)
    return rows.decimals(numbers, numbers >> 63, pa.decimal128(leaf.precision, leaf.scale))


def _each(leaf: Leaf, pieces: pa.Array, rows: Rows, target: pa.DataType) -> pa.Array:
    convert = CONVERSIONS[leaf.kind]
    return rows.looked_at(pieces, lambda item: convert(item, leaf), target)


def _uuids(begins: np.ndarray, sizes: np.ndarray, rows: Rows, target: pa.DataType) -> pa.Array:
    """Return UUIDs written as text of 36 characters."""
    whole = sizes == len(_DASHES) + len(_DIGITS)
    text = np.frombuffer(rows.data, np.uint8)[np.where(whole, begins, 0)[:, None] + np.arange(36)]
    digits = _HEX[text[:, _DIGITS]]
    is_uuid = whole & (text[:, _DASHES] == ord("-")).all(1) & (digits != _NO_DIGIT).all(1)
    rows.doubt(~is_uuid if rows.is_null is None else ~is_uuid & ~rows.is_null)
    both = np.ascontiguousarray(digits[:, 0::2] << 4 | digits[:, 1::2])
    return rows.fixed(both, pa.binary(_UUID_BYTES)).cast(target)
