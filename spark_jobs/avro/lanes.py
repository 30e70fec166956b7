"""Many values side by side, each with a place up to which it was read: one step reads the next of all.

A step that a value does not allow puts it in doubt and reads nothing of it that matters: no place is ever
past its value's end but in doubt, or will be by ``finish``, and none past what may be looked at.
"""

from __future__ import annotations

import numpy as np

from spark_jobs.schema.packed_values import PADDING, PackedValues, words_of

LOW = np.uint64(0xFF)
_HIGH_BIT = np.uint64(0x80)
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
_LAST_BITS = np.uint64(1)  # of the tenth byte of an integer


class Lanes:
    """``at`` and ``end`` are places in all bytes, ``ids`` which of the first lanes each is."""

    __slots__ = ("_last", "_words", "at", "end", "ids", "is_sure")

    def __init__(self, values: PackedValues) -> None:
        self._words = words_of(values.data)
        self._last = len(values.data) - PADDING + 1
        self.at = values.starts.copy()
        self.end = values.ends
        self.ids = np.arange(len(values))
        self.is_sure = np.ones(len(values), bool)

    def __len__(self) -> int:
        return len(self.at)

    def of(self, rows: np.ndarray) -> Lanes:
        """Return some of the lanes, to be read on and ``put`` back."""
        some: Lanes = object.__new__(Lanes)
        some._words, some._last = self._words, self._last
        some.at, some.end, some.ids = self.at[rows], self.end[rows], self.ids[rows]
        some.is_sure = self.is_sure[rows]
        return some

    def put(self, rows: np.ndarray, some: Lanes) -> None:
        """Take over how far some of the lanes were read."""
        self.at[rows], self.is_sure[rows] = some.at, some.is_sure

    def doubt(self, rows: np.ndarray) -> None:
        """Leave these, a mask, to who reads values by themselves."""
        self.is_sure &= ~rows

    def finish(self) -> None:
        """Doubt what was not read to its very end."""
        self.is_sure &= self.at == self.end

    def longs(self) -> np.ndarray:
        """Read an integer of each."""
        words = self._words[self.at]
        if not np.bitwise_or.reduce(words) & _HIGH_BIT:
            self._move(1)
            return _signed(words & LOW)
        stops = ~words & _HIGH_BITS
        lowest = stops & (~stops + _ONE)
        below = lowest - _ONE
        sizes = (np.bitwise_count(below).astype(np.int64) + 1) >> 3
        numbers = words & (lowest ^ below) & ~_HIGH_BITS
        for stay, move, by in _GROUPS:
            numbers = (numbers & stay) | ((numbers & move) >> by)
        if not stops.all():
            self._add_tails(np.flatnonzero(stops == 0), numbers, sizes)
        self._move(sizes)
        return _signed(numbers)

    def _add_tails(self, rows: np.ndarray, numbers: np.ndarray, sizes: np.ndarray) -> None:
        """Add the ninth and tenth bytes of integers that have them."""
        words = self._words[self.at[rows] + 8]
        ninth, tenth = words & LOW, (words >> _EIGHT) & LOW
        is_nine = ninth & np.uint64(0x80) == 0
        numbers[rows] |= (ninth & np.uint64(0x7F)) << np.uint64(56)
        numbers[rows] |= np.where(is_nine, np.uint64(0), (tenth & _LAST_BITS) << np.uint64(63))
        sizes[rows] = np.where(is_nine, 9, 10)
        self.is_sure[rows[~is_nine & (tenth > _LAST_BITS)]] = False

    def pieces(self, sizes: np.ndarray | int) -> np.ndarray:
        """Pass over so many bytes of each, and return where they begin."""
        begins = self.at
        is_there = (sizes >= 0) & (sizes <= self.end - begins)
        if not is_there.all():
            self.is_sure &= is_there
            sizes = np.where(is_there, sizes, 0)
        self._move(sizes)
        return begins

    def _move(self, sizes: np.ndarray | int) -> None:
        self.at = np.minimum(self.at + sizes, self._last)


def _signed(numbers: np.ndarray) -> np.ndarray:
    """Return the numbers that these stand for: 0, -1, 1, -2, and so on."""
    made: np.ndarray = ((numbers >> _ONE) ^ -(numbers & _ONE)).view(np.int64)
    return made
