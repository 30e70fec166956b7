"""A segment: the immutable result of decoding a range of one partition's records.

Every readable record in its offsets is a row, a dead letter, or only counted: a tombstone, or one that a
filter left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.hot.watermark import Epoch
from spark_jobs.schema.iceberg_types import KEY, OFFSET

# Four bytes of each record key, so that a key is looked for in these and not in all the keys' texts.
#
# Hashes use a key's last eight bytes, in which counted keys differ. Several keys may have the same hash, so
# the key itself is compared after a match.


_WORD_BYTES = 8
# Odd, and its bits look like chance: the upper ones of a product differ.
_SPREAD = 0x9E3779B97F4A7C15


def prints_of(keys: pa.Array) -> np.ndarray:
    """Return a hash of each key; keys are text, bytes or null."""
    if pa.types.is_dictionary(keys.type):
        which = keys.indices.fill_null(0).to_numpy()
        return prints_of(keys.dictionary)[which] if len(keys.dictionary) else np.zeros(len(keys), np.uint32)
    _, offsets, text = keys.cast(pa.binary()).buffers()
    if not len(keys) or text is None:
        return np.zeros(len(keys), np.uint32)
    bounds = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    first, last = bounds[[0, -1]]
    padded = np.zeros(_WORD_BYTES + last - first, np.uint8)  # so that eight bytes end at each key's end
    padded[_WORD_BYTES:] = np.frombuffer(text, np.uint8)[first:last]
    words = np.ndarray(last - first + 1, "<u8", padded.data, strides=(1,))[bounds[1:] - first]
    others = (_WORD_BYTES - np.minimum(np.diff(bounds), _WORD_BYTES)).astype(np.uint64) * np.uint64(8)
    # The bytes before a short key belong to another key; for an empty key all eight do.
    own = np.where(others < 64, words >> np.minimum(others, np.uint64(63)), np.uint64(0))  # noqa: PLR2004  (bits)
    return (own * np.uint64(_SPREAD) >> np.uint64(32)).astype(np.uint32)


def print_of(key: str | bytes) -> np.uint32:
    """Return the hash of a key."""
    own = (key.encode() if isinstance(key, str) else key)[-_WORD_BYTES:]
    return np.uint32(int.from_bytes(own, "little") * _SPREAD >> 32 & 0xFFFFFFFF)


SMALL_ROWS = 8_192  # segments of fewer records are merged with their neighbours
_MIN_REPEATS = 4
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Segment:
    """Records ``start <= offset < end``, all in offset order; both tables have ``_kafka_offset``."""

    epoch: Epoch
    partition: int
    start: int
    end: int
    rows: pa.Table
    dead_letters: pa.Table
    tombstones: np.ndarray = field(default_factory=lambda: _NONE)
    filtered: np.ndarray = field(default_factory=lambda: _NONE)
    size_bytes: int = field(init=False, default=0)
    part_of: Segment | None = field(init=False, compare=False, repr=False, default=None)
    mapped: Any = field(init=False, compare=False, repr=False, default=None)  # where others find it

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise ValueError(f"not a segment: [{self.start}, {self.end})")
        parts = (self.rows, self.dead_letters, self.tombstones, self.filtered)
        object.__setattr__(self, "size_bytes", sum(each.nbytes for each in parts if len(each)))

    @property
    def whole(self) -> Segment:
        """The segment that this is a part of, or itself."""
        return self.part_of or self

    @property
    def records(self) -> int:
        """Number of records in its offsets."""
        return len(self.rows) + len(self.dead_letters) + len(self.tombstones) + len(self.filtered)

    def rows_of_key(self, key: str | bytes, its_print: np.uint32) -> pa.Table | None:
        """Return its rows with this record key; None if there are none."""
        prints = self._key_prints
        at = prints.searchsorted(its_print)
        if at == len(prints) or prints[at] != its_print:
            return None
        rows = self.rows.filter(pc.equal(self.rows.column(KEY), pa.scalar(key)))
        return rows if len(rows) else None

    @cached_property
    def _key_prints(self) -> np.ndarray:
        """The hashes of all keys, sorted, built at the first lookup."""
        return np.sort(prints_of(self.rows.column(KEY).combine_chunks()))

    def between(self, start: int, end: int) -> Segment:
        """Return its part in ``[start, end)``, which overlaps it, without copying."""
        start, end = max(start, self.start), min(end, self.end)
        if (start, end) == (self.start, self.end):
            return self
        part = Segment(
            self.epoch,
            self.partition,
            start,
            end,
            _slice(self.rows, start, end),
            _slice(self.dead_letters, start, end),
            *(each[slice(*np.searchsorted(each, [start, end]))] for each in (self.tombstones, self.filtered)),
        )
        object.__setattr__(part, "part_of", self.whole)
        return part

    def lie_in(self, mapped: tuple[object, ...], rows: pa.Table, dead_letters: pa.Table) -> None:
        """Replace its tables by equal ones in a mapped file."""
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "dead_letters", dead_letters)
        object.__setattr__(self, "mapped", mapped)


def merged(segments: Sequence[Segment]) -> Segment:
    """Return adjacent segments as one; a large one uses dictionaries if they save memory."""
    first, last = segments[0], segments[-1]
    rows = pa.concat_tables([each.rows for each in segments]).combine_chunks()
    letters = pa.concat_tables([each.dead_letters for each in segments])
    return Segment(
        first.epoch,
        first.partition,
        first.start,
        last.end,
        _with_dictionaries(rows) if len(rows) > SMALL_ROWS else rows,
        letters.combine_chunks(),
        np.concatenate([each.tombstones for each in segments]),
        np.concatenate([each.filtered for each in segments]),
    )


def _with_dictionaries(rows: pa.Table) -> pa.Table:
    for index, column in enumerate(rows.columns):
        if pa.types.is_string(column.type) and _may_repeat(column):
            encoded = column.combine_chunks().dictionary_encode()
            if len(encoded.dictionary) * _MIN_REPEATS < len(rows):
                rows = rows.set_column(index, rows.schema.names[index], _narrow(encoded))
    return rows


def _may_repeat(column: pa.ChunkedArray) -> bool:
    """True unless too many of the first values differ: encoding all would take four times as long."""
    first = column.slice(0, len(column) // _MIN_REPEATS + 1)
    return bool(pc.count_distinct(first).as_py() * _MIN_REPEATS < len(column))


def _narrow(encoded: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return the dictionary array with the smallest index type."""
    distinct = len(encoded.dictionary)
    kind = pa.int8() if distinct < 1 << 7 else pa.int16() if distinct < 1 << 15 else pa.int32()
    return pa.DictionaryArray.from_arrays(encoded.indices.cast(kind), encoded.dictionary)


def _slice(table: pa.Table, start: int, end: int) -> pa.Table:
    first, after = np.searchsorted(table.column(OFFSET).to_numpy(), [start, end])
    return table.slice(first, after - first)


# A partition's tail, segments that touch each other, and what an answer takes of it.
#
# A tail never changes: who has one has the same records whatever comes, is drained or is let go of meanwhile.


_TOGETHER = 8


@dataclass(frozen=True, slots=True)
class Tail:
    """The held records of a partition in ``[start, end)``, all of one epoch.

    ``end`` may be past the last segment's end if no readable record is between them.
    """

    epoch: Epoch
    partition: int
    start: int
    end: int
    segments: tuple[Segment, ...] = ()

    @classmethod
    def at(cls, epoch: Epoch, partition: int, offset: int) -> Tail:
        """Return an empty one that continues from the offset."""
        return cls(epoch, partition, offset, offset)

    def append(self, segment: Segment) -> Tail:
        """Return it with the next segment. Raises ``ValueError`` if that is not adjacent."""
        if (segment.epoch, segment.partition, segment.start) != (self.epoch, self.partition, self.end):
            raise ValueError(f"segment {segment.partition}:{segment.start} does not touch {self.end}")
        return replace(self, end=segment.end, segments=_merged((*self.segments, segment)))

    def up_to(self, end: int) -> Tail:
        """Return it extended to ``end``: no further record below it is readable."""
        return replace(self, end=max(self.end, end))

    def covered(self, seam: int) -> Tail:
        """Return it without the segments that end at or below ``seam``, since the table has them."""
        left = tuple(each for each in self.segments if each.end > seam)
        # Between two segments there may be offsets without a readable record, and the seam among them.
        start = min(seam, left[0].start if left else self.end)
        return replace(self, start=max(self.start, start), segments=left)

    @property
    def size_bytes(self) -> int:
        """Memory used by its segments."""
        return sum(segment.size_bytes for segment in self.segments)


def _merged(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    """Merge the last segments once there are eight of a size, so that each row is copied about four times."""
    if segments[-1].records > SMALL_ROWS:
        return (*segments[:-1], merged(segments[-1:]))
    bound = SMALL_ROWS // _TOGETHER**3
    while bound <= SMALL_ROWS:
        small = takewhile(lambda each: each.records <= bound, reversed(segments))  # noqa: B023  (used here)
        if (count := len(list(small))) >= _TOGETHER:
            segments = (*segments[:-count], merged(segments[-count:]))
        bound *= _TOGETHER
    return segments


@dataclass(frozen=True, slots=True)
class Share:
    """One partition of an answer: ``[start, seam)`` is in the lake, ``[seam, end)`` in the segments."""

    partition: int
    start: int
    seam: int
    end: int
    segments: tuple[Segment, ...] = ()

    @property
    def hot_rows(self) -> int:
        """Number of rows that are not in the lake."""
        return sum(segment.rows.num_rows for segment in self.segments)


def shares_of(
    epoch: Epoch,
    starts: Mapping[int, int],
    seams: Mapping[int, int],
    tails: Mapping[int, Tail],
    until: Mapping[int, int] | None = None,
) -> tuple[Share, ...]:
    """Return the share of each partition of ``seams``, in their order.

    ``starts`` and ``seams`` are the table's first offset of a partition and its next one. A tail of another
    epoch, or one that begins past the seam, adds nothing: no answer has records behind a gap. ``until`` are
    ends that must not be exceeded; partitions without one are left out.
    """
    shares = []
    for partition, seam in sorted(seams.items()):
        tail = tails.get(partition)
        is_joined = tail is not None and tail.epoch == epoch and tail.start <= seam <= tail.end
        joined = tail if tail is not None and is_joined else Tail.at(epoch, partition, seam)
        if until is None or partition in until:
            end = joined.end if until is None else min(joined.end, until[partition])
            shares.append(_share(joined, starts.get(partition, seam), min(seam, end), end))
    return tuple(shares)


def _share(tail: Tail, start: int, seam: int, end: int) -> Share:
    held = (each for each in tail.segments if each.end > seam and each.start < end)
    return Share(tail.partition, min(start, end), seam, end, tuple(each.between(seam, end) for each in held))
