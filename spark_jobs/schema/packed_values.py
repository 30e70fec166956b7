"""Values one after the other in one piece of memory, as readers that take many at once want them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import overload

import numpy as np
import pyarrow as pa

# Behind the last value there are as many zero bytes, so that words may be read wherever a value ends, and
# the 36 bytes of a UUID's text where there is none.
PADDING = 64
MOST_BYTES = (1 << 31) - 1 - PADDING  # Arrow counts those of a column in 32 bits
_BINARY = pa.binary()


class PackedValues(Sequence[bytes]):
    """``data`` has the values from ``starts`` to ``ends``, in their order, with any bytes between them."""

    def __init__(self, data: pa.Buffer, starts: np.ndarray, ends: np.ndarray) -> None:
        self.data = data
        self.starts = starts
        self.ends = ends

    @classmethod
    def of(cls, values: Sequence[bytes]) -> PackedValues:
        """Return values packed; those that already are as they are."""
        if isinstance(values, PackedValues):
            return values
        # Arrow joins and measures them in one go.
        packed = pa.array([*values, bytes(PADDING)], pa.large_binary())
        _, offsets, data = packed.buffers()
        bounds = np.frombuffer(offsets, np.int64)[: len(packed)]
        return cls(data.slice(0, int(bounds[-1]) + PADDING), bounds[:-1], bounds[1:])

    @classmethod
    def beside_column(cls, values: Sequence[bytes | None]) -> tuple[PackedValues, pa.Array]:
        """Return values packed, nulls as empty ones, and as a column that shares their memory."""
        grown = pa.array([*values, bytes(PADDING)], _BINARY)
        # Arrow doubles a column's memory while it builds it, and keeps what is left over.
        column = pa.concat_arrays([grown, grown[:0]])
        _, offsets, data = column.buffers()
        bounds = np.frombuffer(offsets, np.int32)[: len(column)].astype(np.int64)
        return cls(data, bounds[:-1], bounds[1:]), column[:-1]

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[bytes]:
        every = memoryview(self.data)
        return (
            bytes(every[start:end])
            for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        )

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> PackedValues: ...
    def __getitem__(self, index: int | slice) -> bytes | PackedValues:
        if isinstance(index, slice):
            return PackedValues(self.data, self.starts[index], self.ends[index])
        return bytes(memoryview(self.data)[self.starts[index] : self.ends[index]])

    def parts(self, most_bytes: int) -> Iterator[PackedValues]:
        """Yield them all in order, in parts of about so many bytes; there is always one."""
        sizes = self.ends - self.starts
        numbers = (np.cumsum(sizes) - sizes) // most_bytes
        cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(self)]
        for start, end in pairwise(cuts):
            yield self[start:end]

    def take(self, indices: np.ndarray) -> PackedValues:
        """Return those at these positions."""
        return PackedValues(self.data, self.starts[indices], self.ends[indices])

    def array(self) -> pa.Array:
        """Return them as a column."""
        return binary_column(self.data, self.starts, self.ends)


def joined(parts: Sequence[PackedValues]) -> PackedValues:
    """Return values of one piece of memory, part by part."""
    starts, ends = (np.concatenate(each) for each in zip(*((p.starts, p.ends) for p in parts), strict=True))
    return PackedValues(parts[0].data, starts, ends)


def words_at(data: pa.Buffer, places: np.ndarray) -> np.ndarray:
    """Return the eight bytes from each of these places on, as numbers."""
    # Pieces without a type: numbers that are nowhere aligned NumPy would put in order one by one.
    pieces = np.ndarray(len(data) - 7, np.dtype("V8"), data, strides=(1,))
    words: np.ndarray = pieces[places].view(np.dtype("<u8"))
    return words


def binary_column(
    data: pa.Buffer,
    starts: np.ndarray,
    ends: np.ndarray,
    is_null: np.ndarray | None = None,
    kind: pa.DataType = _BINARY,
) -> pa.Array:
    """Return pieces of ``data`` as a column; those of any bytes ascend and do not overlap.

    A null has none. Whether they are UTF-8 is not looked at. Arrow takes every second value of a column that
    has what lies between them, too.
    """
    if not len(starts):
        return pa.array([], kind)
    is_empty = ends == starts
    if is_empty.any():  # as nulls are, wherever they were said to be
        ends = np.maximum.accumulate(np.where(is_empty, 0, ends))
        starts = np.where(is_empty, ends, starts)
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2], bounds[1::2] = starts, ends
    buffers = [None, pa.py_buffer(bounds), data]
    pieces = pa.Array.from_buffers(kind, len(bounds) - 1, buffers)
    return pieces.take(pa.array(np.arange(0, len(bounds), 2, dtype=np.int32), mask=is_null))
