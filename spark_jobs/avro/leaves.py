"""Values without others inside, which lanes have passed over, as columns of the table's types.

Each takes what it was told where its values are, and which of them the rows are; a row whose value no column
can hold is put in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from spark_jobs.avro.columns import DURATION, MOST_DIGITS
from spark_jobs.avro.parsing import Kind, Leaf
from spark_jobs.avro.plain import CONVERSIONS, FIRST_DAY, FIRST_US, LAST_DAY, LAST_US
from spark_jobs.schema.arrow_schema import column_of
from spark_jobs.schema.packed_values import binary_column, words_of
from spark_jobs.schema.writer_schema import UnreadableValueError

_DAY_US = 86_400_000_000
_LONG_BYTES = 8
_UUID_BYTES = 16
_DASHES = np.array([8, 13, 18, 23])
_DIGITS = np.array([at for at in range(36) if at not in _DASHES])
_NO_DIGIT = 255
_HEX = np.full(256, _NO_DIGIT, np.uint8)
for _digit in b"0123456789abcdefABCDEF":
    _HEX[_digit] = int(chr(_digit), 16)


class Rows:
    """Which of the values that were read are a column's rows (-1: null), and the lane that each is of."""

    def __init__(self, data: bytes, is_sure: np.ndarray, values: np.ndarray, lanes: np.ndarray) -> None:
        self.data = data
        self._is_sure = is_sure
        self.values = values
        self.lanes = lanes
        self.is_null = values < 0 if len(values) and values.min() < 0 else None

    def of(self, values: np.ndarray, lanes: np.ndarray | None = None) -> Rows:
        """Return rows of other values; of the same lanes, or of these."""
        return Rows(self.data, self._is_sure, values, self.lanes if lanes is None else lanes)

    def taken(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return what was read of each row, zero where it is null."""
        read = parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0, np.int64)
        if self.is_null is None:
            all_of_them: np.ndarray = read[self.values]
            return all_of_them
        if not len(read):
            return np.zeros(len(self.values), read.dtype)
        return np.where(self.is_null, read.dtype.type(0), read[self.values])

    def doubt(self, rows: np.ndarray) -> None:
        """Leave these, a mask or positions, to who reads values by themselves; they may be anything."""
        self._is_sure[self.lanes[rows]] = False

    def within(self, numbers: np.ndarray, first: int, last: int) -> np.ndarray:
        """Return numbers of which those outside are in doubt and zero."""
        outside = (numbers < first) | (numbers > last)
        if self.is_null is not None:
            outside &= ~self.is_null
        if not outside.any():
            return numbers
        self.doubt(outside)
        return np.where(outside, 0, numbers)

    def array(self, numbers: np.ndarray, kind: pa.DataType | None = None) -> pa.Array:
        """Return numbers as a column."""
        return pa.array(numbers, kind, mask=self.is_null)


def number_column(  # noqa: PLR0911  (a line for each kind)
    leaf: Leaf, numbers: np.ndarray, rows: Rows, target: pa.DataType
) -> pa.Array:
    """Return what is written as an integer."""
    match leaf.kind:
        case Kind.LONG:
            return rows.array(numbers)
        case Kind.INT:
            return rows.array(rows.within(numbers, -(1 << 31), (1 << 31) - 1).astype(np.int32))
        case Kind.ENUM:
            at = rows.within(numbers, 0, len(leaf.symbols) - 1)
            return pa.array(leaf.symbols, pa.string()).take(rows.array(at))
        case Kind.DATE:
            return rows.array(rows.within(numbers, FIRST_DAY, LAST_DAY).astype(np.int32)).cast(target)
        case Kind.TIME_MILLIS | Kind.TIME_MICROS:
            scale = 1000 if leaf.kind is Kind.TIME_MILLIS else 1
            return rows.array(rows.within(numbers, 0, _DAY_US // scale - 1) * scale).cast(target)
        case Kind.TIMESTAMP_MILLIS | Kind.LOCAL_MILLIS:
            return rows.array(rows.within(numbers, FIRST_US // 1000, LAST_US // 1000) * 1000).cast(target)
        case Kind.TIMESTAMP_NANOS | Kind.LOCAL_NANOS:
            rows.doubt(numbers % 1000 != 0)
            numbers = numbers // 1000
    return rows.array(rows.within(numbers, FIRST_US, LAST_US)).cast(target)


def piece_column(  # noqa: PLR0911  (a line for each kind)
    leaf: Leaf, begins: np.ndarray, sizes: np.ndarray, rows: Rows, target: pa.DataType
) -> pa.Array:
    """Return what is written as bytes, from ``begins`` on."""
    match leaf.kind:
        case Kind.BOOLEAN:
            numbers = np.frombuffer(rows.data, np.uint8)[begins]
            return rows.array(rows.within(numbers, 0, 1) == 1)
        case Kind.DOUBLE:
            return rows.array(words_of(rows.data)[begins].view(np.float64))
        case Kind.FLOAT:
            return rows.array(words_of(rows.data)[begins].astype(np.uint32).view(np.float32))
        case Kind.DURATION:
            return _durations(begins, rows, target)
        case Kind.DECIMAL if leaf.precision <= MOST_DIGITS and sizes.max(initial=0) <= _LONG_BYTES:
            return _decimals(leaf, begins, sizes, rows)
        case Kind.STRING:
            return _texts(begins, begins + sizes, rows)
    pieces = binary_column(rows.data, begins, begins + sizes, rows.is_null)
    match leaf.kind:
        case Kind.UUID if leaf.base == "string":
            return _uuids(begins, sizes, rows, target)
        case Kind.DECIMAL:
            return _each(leaf, pieces, rows, target)
    return pieces.cast(pa.binary(_UUID_BYTES)).cast(target) if leaf.kind is Kind.UUID else pieces.cast(target)


def _durations(begins: np.ndarray, rows: Rows, target: pa.DataType) -> pa.Array:
    words = words_of(rows.data)
    parts = [rows.array(words[begins + 4 * part].astype(np.uint32).astype(np.int64)) for part in range(3)]
    return pa.StructArray.from_arrays(parts[: len(DURATION)], fields=list(target), mask=_mask(rows))


def _mask(rows: Rows) -> pa.Array | None:
    return None if rows.is_null is None else pa.array(rows.is_null)


def _decimals(leaf: Leaf, begins: np.ndarray, sizes: np.ndarray, rows: Rows) -> pa.Array:
    """Return decimals of up to eight bytes: two numbers of eight bytes each, the lower first."""
    words = words_of(rows.data)[begins].byteswap().view(np.int64)
    numbers = np.where(sizes == 0, 0, words >> (64 - 8 * np.maximum(sizes, 1)))
    numbers = rows.within(numbers, 1 - 10**leaf.precision, 10**leaf.precision - 1)
    both = np.stack([numbers, numbers >> 63], axis=1)
    kind = pa.decimal128(leaf.precision, leaf.scale)
    valid = None if rows.is_null is None else pa.array(~rows.is_null).buffers()[1]
    return pa.Array.from_buffers(kind, len(numbers), [valid, pa.py_buffer(np.ascontiguousarray(both))])


def _texts(begins: np.ndarray, ends: np.ndarray, rows: Rows) -> pa.Array:
    texts = binary_column(rows.data, begins, ends, rows.is_null, pa.string())
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return _looked_at(texts.view(pa.binary()), rows, bytes.decode, pa.string())
    return texts


def _looked_at(
    pieces: pa.Array, rows: Rows, made: Callable[[bytes], object], target: pa.DataType
) -> pa.Array:
    """Return what is made of each, null where nothing can be."""
    items = pieces.to_pylist()
    bad = []
    for row, item in enumerate(items):
        if item is not None:
            try:
                items[row] = made(item)
            except (UnreadableValueError, UnicodeDecodeError):
                bad.append(row)
                items[row] = None
    rows.doubt(np.array(bad, np.int64))
    return column_of(items, target)


def _each(leaf: Leaf, pieces: pa.Array, rows: Rows, target: pa.DataType) -> pa.Array:
    convert = CONVERSIONS[leaf.kind]
    return _looked_at(pieces, rows, lambda item: convert(item, leaf), target)


def _uuids(begins: np.ndarray, sizes: np.ndarray, rows: Rows, target: pa.DataType) -> pa.Array:
    """Return UUIDs written as text of 36 characters."""
    whole = sizes == len(_DASHES) + len(_DIGITS)
    text = np.frombuffer(rows.data, np.uint8)[np.where(whole, begins, 0)[:, None] + np.arange(36)]
    digits = _HEX[text[:, _DIGITS]]
    is_uuid = whole & (text[:, _DASHES] == ord("-")).all(1) & (digits != _NO_DIGIT).all(1)
    rows.doubt(~is_uuid if rows.is_null is None else ~is_uuid & ~rows.is_null)
    both = np.ascontiguousarray(digits[:, 0::2] << 4 | digits[:, 1::2])
    valid = None if rows.is_null is None else pa.array(~rows.is_null).buffers()[1]
    kind = pa.binary(_UUID_BYTES)
    return pa.Array.from_buffers(kind, len(both), [valid, pa.py_buffer(both)]).cast(target)
