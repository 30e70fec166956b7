"""Many values in parallel, each with a read position: one step reads the next item of all.

A step that a value does not allow puts it in doubt and reads nothing of it that matters: no place is ever
past its value's end but in doubt, or will be by ``finish``, and none past what may be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from spark_jobs.formats.lanes.packed_values import MOST_BYTES, PADDING, PackedValues, binary_column, words_at
from spark_jobs.schema.arrow_schema import column_of, no_rows
from spark_jobs.schema.writer_schema import UnreadableValueError

LOW = np.uint64(0xFF)
_HIGH_BIT = np.uint64(0x80)
_SMALL = 0x80  # integers below it are the byte that they are written in
_HIGH_BITS = np.uint64(0x8080808080808080)
# Groups of seven bits, side by side in steps of 1, 2 and 4 bytes: those that stay, those that move down.
_GROUPS = tuple(
    (np.uint64(stay), np.uint64(move), np.uint64(by))
    for stay, move, by in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)
_ONE, _EIGHT = np.uint64(1), np.uint64(8)


class Lanes:
    """Read positions; ``at`` and ``end`` are offsets in all bytes, ``ids`` the original lane numbers."""

    __slots__ = ("_bytes", "_last", "_stops", "at", "data", "end", "is_sure")

    def __init__(self, values: PackedValues) -> None:
        self.data = values.data
        self._bytes = np.frombuffer(values.data, np.uint8)
        self._stops: list[np.ndarray] = []
        self._last = len(values.data) - PADDING + 1
        self.at = values.starts.copy()
        self.end = values.ends
        self.is_sure = np.ones(len(values), bool)

    def __len__(self) -> int:
        return len(self.at)

    def of(self, rows: np.ndarray) -> Lanes:
        """Return some of the lanes, to be read further and then ``put`` back."""
        some: Lanes = object.__new__(Lanes)
        some.data, some._bytes, some._stops, some._last = self.data, self._bytes, self._stops, self._last
        some.at, some.end, some.is_sure = self.at[rows], self.end[rows], self.is_sure[rows]
        return some

    def put(self, rows: np.ndarray, some: Lanes) -> None:
        """Update the positions of some of the lanes."""
        self.at[rows], self.is_sure[rows] = some.at, some.is_sure

    def doubt(self, rows: np.ndarray) -> None:
        """Mark these lanes for the one-by-one reader. ``rows`` is a mask."""
        self.is_sure &= ~rows

    def finish(self) -> None:
        """Mark lanes that were not read to their end."""
        self.is_sure &= self.at == self.end

    def numbers(self) -> np.ndarray:
        """Read an unsigned varint from each lane."""
        first = self._bytes[self.at]
        if first.max(initial=0) < _SMALL:
            self._move(1)
            small: np.ndarray = first.astype(np.uint64)
            return small
        numbers, sizes, is_one = _numbers(self.data, self.at)
        if not is_one.all():
            self.is_sure &= is_one
        self._move(sizes)
        return numbers

    def longs(self) -> np.ndarray:
        """Read a signed zigzag varint from each lane."""
        return signed(self.numbers())

    def many_numbers(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Read ``counts[i]`` integers from lane i; return them and the number read."""
        first = np.searchsorted(self._ends_of_numbers(), self.at)
        return self._numbers_between(first, first + counts)

    def numbers_until(self, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Read integers from each lane up to these positions; return them and the number read."""
        stops = self._ends_of_numbers()
        first, last = np.searchsorted(stops, self.at), np.searchsorted(stops, ends)
        read = self._numbers_between(first, last)
        self.doubt(self.at != ends)
        return read

    def _ends_of_numbers(self) -> np.ndarray:
        """Return the positions of bytes that can end an integer, computed once for all lanes."""
        if not self._stops:
            self._stops.append(np.flatnonzero(self._bytes < _SMALL))
        return self._stops[0]

    def _numbers_between(self, first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        stops = self._ends_of_numbers()
        last = np.where(self.is_sure, np.minimum(last, len(stops)), first)
        ends = np.where(last > first, stops[last - 1] + 1, self.at)
        self.doubt(ends > self.end)
        counts = np.where(self.is_sure, last - first, 0)
        offsets = np.cumsum(counts) - counts
        begins = stops[np.repeat(first - offsets, counts) + np.arange(counts.sum()) - 1] + 1
        begins[offsets[counts > 0]] = self.at[counts > 0]
        numbers, _, is_one = _numbers(self.data, begins)
        if not is_one.all():
            self.is_sure[np.repeat(np.arange(len(self)), counts)[~is_one]] = False
        self.at = np.where(self.is_sure, ends, self.at)
        return numbers, counts

    def begin_with(self, mark: bytes) -> np.ndarray:
        """Return the lanes that continue with these bytes, at most eight."""
        is_here: np.ndarray = self.end - self.at >= len(mark)
        for place, byte in enumerate(mark):
            is_here &= self._bytes[self.at + place] == byte
        return is_here

    def skip(self, size: int) -> None:
        """Skip a number of bytes that all lanes are known to have."""
        self.at = self.at + size

    def pieces(self, sizes: np.ndarray | int) -> np.ndarray:
        """Skip a number of bytes of each lane, and return their positions."""
        begins = self.at
        is_there = (sizes >= 0) & (sizes <= self.end - begins)
        if not is_there.all():
            self.is_sure &= is_there
            sizes = np.where(is_there, sizes, 0)
        self.at = begins + sizes
        return begins

    def many_pieces(self, counts: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Skip ``counts[i]`` pieces of lane i; return their positions and the number skipped."""
        begins = self.pieces(counts * size)
        counts = np.where(self.is_sure, counts, 0)
        firsts = np.cumsum(counts) - counts
        return np.repeat(begins - firsts * size, counts) + np.arange(counts.sum()) * size, counts

    def _move(self, sizes: np.ndarray | int) -> None:
        self.at = np.minimum(self.at + sizes, self._last)


def _numbers(data: pa.Buffer, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the integers at these positions, their sizes, and a mask of those within 64 bits."""
    words = words_at(data, at)
    stops = ~words & _HIGH_BITS
    lowest = stops & (~stops + _ONE)
    below = lowest - _ONE
    sizes = (np.bitwise_count(below).astype(np.int64) + 1) >> 3
    numbers = words & (lowest ^ below) & ~_HIGH_BITS
    for stay, move, by in _GROUPS:
        numbers = (numbers & stay) | ((numbers & move) >> by)
    is_one = np.ones(len(words), bool)
    if not stops.all():
        rows = np.flatnonzero(stops == 0)
        tails = words_at(data, at[rows] + 8)
        ninth, tenth = tails & LOW, (tails >> _EIGHT) & LOW
        is_nine = ninth & _HIGH_BIT == 0
        numbers[rows] |= (ninth & np.uint64(0x7F)) << np.uint64(56)
        numbers[rows] |= np.where(is_nine, np.uint64(0), (tenth & _ONE) << np.uint64(63))
        sizes[rows] = np.where(is_nine, 9, 10)
        is_one[rows] = is_nine | (tenth <= _ONE)
    return numbers, sizes, is_one


def signed(numbers: np.ndarray) -> np.ndarray:
    """Return zigzag-decoded numbers: 0, -1, 1, -2, and so on."""
    decoded: np.ndarray = ((numbers >> _ONE) ^ -(numbers & _ONE)).view(np.int64)
    return decoded


class Presence:
    """Presence of a value in each lane, per read, and its index among the values read."""

    def __init__(self) -> None:
        # -1 where it is not; a range where all lanes have it: nothing is to be kept of them.
        self._at: list[np.ndarray | range] = []
        self._count = 0
        self._asked = 0

    def take(self, lanes: Lanes, is_here: np.ndarray, read: Callable[[Lanes], None]) -> None:
        """Read one more value of the lanes that have one."""
        self._asked += len(lanes)
        if is_here.all():
            self._at.append(range(self._count, self._count + len(lanes)))
            read(lanes)
            self._count += len(lanes)
            return
        here = np.flatnonzero(is_here)
        at = np.full(len(lanes), -1)
        at[here] = np.arange(self._count, self._count + len(here))
        self._at.append(at)
        if len(here):
            some = lanes.of(here)
            read(some)
            lanes.put(here, some)
        self._count += len(here)

    def rows(self, rows: Rows) -> Rows:
        """Return the rows of the values read, null where a lane had none."""
        if self._count == self._asked:
            return rows
        parts = (np.arange(at.start, at.stop) if isinstance(at, range) else at for at in self._at)
        at = rows.taken([*parts])
        if rows.is_null is not None:
            at = np.where(rows.is_null, -1, at)
        return rows.of(at)


# Reads all of each lane, and returns what makes columns of it.
Take: TypeAlias = Callable[[Lanes], Callable[["Rows", pa.Schema], list[pa.Array]]]


@dataclass(frozen=True, slots=True)
class BlockReader:
    """Reads values of one schema at once."""

    take: Take
    columns: pa.Schema

    def read(self, values: PackedValues) -> tuple[pa.Table, np.ndarray]:
        """Return rows and the values they belong to; marked values have no row."""
        is_sure = np.zeros(len(values), bool)
        if len(values.data) > MOST_BYTES:
            return no_rows(self.columns), is_sure
        lanes = Lanes(values)
        columns_of = self.take(lanes)
        is_sure = lanes.is_sure
        while True:
            sure = np.flatnonzero(is_sure)
            arrays = columns_of(Rows(values.data, is_sure, sure, sure), self.columns)
            # What no column holds is known when columns are made: again without it, once.
            if is_sure[sure].all():
                return pa.Table.from_arrays(arrays, schema=self.columns), is_sure


# What lanes have passed over, as columns: which of it the rows are, and the lane that each is of.
#
# A row whose value no column can hold is put in doubt; what stands in its place does not matter.


class Rows:
    """A column's rows: the index of each row's value (-1: null), and its lane."""

    def __init__(self, data: pa.Buffer, is_sure: np.ndarray, values: np.ndarray, lanes: np.ndarray) -> None:
        self.data = data
        self._is_sure = is_sure
        self.values = values
        self.lanes = lanes
        self.is_null = values < 0 if len(values) and values.min() < 0 else None
        # Each lane's, in their order: what was read of them is their column as it is.
        self._are_all = values is lanes and len(values) == len(is_sure)

    def of(self, values: np.ndarray, lanes: np.ndarray | None = None) -> Rows:
        """Return rows of other values, in the same lanes or in these."""
        return Rows(self.data, self._is_sure, values, self.lanes if lanes is None else lanes)

    def taken(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Return each row's value, zero if it is null."""
        read = parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.empty(0, np.int64)
        if self._are_all and len(read) == len(self.values):
            return read
        if self.is_null is None:
            all_of_them: np.ndarray = read[self.values]
            return all_of_them
        if not len(read):
            return np.zeros(len(self.values), read.dtype)
        return np.where(self.is_null, read.dtype.type(0), read[self.values])

    def doubt(self, rows: np.ndarray) -> None:
        """Mark these rows, a mask or positions, for the one-by-one reader; their values are arbitrary."""
        self._is_sure[self.lanes[rows]] = False

    def within(self, numbers: np.ndarray, first: int, last: int) -> np.ndarray:
        """Return numbers; those out of bounds are marked and zero."""
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

    @property
    def nulls(self) -> pa.Array | None:
        """Return the mask of null rows, in the form that Arrow's nested columns take."""
        return None if self.is_null is None else pa.array(self.is_null)

    def fixed(self, content: np.ndarray, kind: pa.DataType) -> pa.Array:
        """Return a fixed-width column from its rows' bytes."""
        valid = None if self.is_null is None else pa.array(~self.is_null).buffers()[1]
        return pa.Array.from_buffers(kind, len(content), [valid, pa.py_buffer(content)])

    def decimals(self, low: np.ndarray, high: np.ndarray, kind: pa.DataType) -> pa.Array:
        """Return decimals from the lower and higher 64 bits of their unscaled values."""
        return self.fixed(np.stack([low.view(np.int64), high.view(np.int64)], axis=1), kind)

    def texts(self, begins: np.ndarray, ends: np.ndarray) -> pa.Array:
        """Return the bytes between these positions as texts."""
        texts = binary_column(self.data, begins, ends, self.is_null, pa.string())
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            return self.looked_at(texts.view(pa.binary()), bytes.decode, pa.string())
        return texts

    def looked_at(self, pieces: pa.Array, made: Callable[[Any], object], target: pa.DataType) -> pa.Array:
        """Return the converted value of each row, null if conversion fails."""
        items = pieces.to_pylist()
        bad = []
        for row, item in enumerate(items):
            if item is not None:
                try:
                    items[row] = made(item)
                except (UnreadableValueError, UnicodeDecodeError):
                    bad.append(row)
                    items[row] = None
        self.doubt(np.array(bad, np.int64))
        return column_of(items, target)

    def items(self, owners: Sequence[np.ndarray], count: int) -> tuple[pa.Array, Rows]:
        """Return each row's first item, and the items in row order.

        ``owners`` say of each item which of the ``count`` lists that were read it is of.
        """
        every = np.concatenate(owners) if owners else np.empty(0, np.int64)
        place = np.full(count, -1)
        is_list = self.values >= 0
        place[self.values[is_list]] = np.flatnonzero(is_list)
        of_row = place[every]
        present = np.flatnonzero(of_row >= 0)
        of_row = of_row[present]
        is_ordered = (of_row[1:] >= of_row[:-1]).all()
        ordered = present if is_ordered else present[np.argsort(of_row, kind="stable")]
        counts = np.bincount(of_row, minlength=len(self.values))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return pa.array(offsets), self.of(ordered, np.repeat(self.lanes, counts))

    def doubt_repeated(self, keys: pa.Array, offsets: pa.Array) -> None:
        """Mark maps with a repeated key; the arguments are their entries."""
        encoded = keys.dictionary_encode()
        of_row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        entries = of_row * (len(encoded.dictionary) + 1) + encoded.indices.fill_null(-1).to_numpy()
        _, first, counts = np.unique(entries, return_index=True, return_counts=True)
        self.doubt(first[counts > 1])
