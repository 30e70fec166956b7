"""A segment: what a run of one partition's records came to. It never changes.

Every readable record of its offsets is a row, a dead letter, or counted: a tombstone, or one that a filter
left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.hot.key_prints import prints_of
from spark_jobs.schema.metadata_columns import KEY, OFFSET

if TYPE_CHECKING:
    from spark_jobs.hot.watermark import Epoch

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
        """Return the one that this is a part of, or itself."""
        return self.part_of or self

    @property
    def records(self) -> int:
        """How many it is made of."""
        return len(self.rows) + len(self.dead_letters) + len(self.tombstones) + len(self.filtered)

    def rows_of_key(self, key: str | bytes, its_print: np.uint32) -> pa.Table | None:
        """Return its rows with this record key, None where it has none."""
        prints = self._key_prints
        at = prints.searchsorted(its_print)
        if at == len(prints) or prints[at] != its_print:
            return None
        rows = self.rows.filter(pc.equal(self.rows.column(KEY), pa.scalar(key)))
        return rows if len(rows) else None

    @cached_property
    def _key_prints(self) -> np.ndarray:
        """In their own order; made when a key is looked for the first time."""
        return np.sort(prints_of(self.rows.column(KEY).combine_chunks()))

    def between(self, start: int, end: int) -> Segment:
        """Return its part in ``[start, end)``, which overlaps it; nothing is copied."""
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
        """Have the same tables in a file, in place of its own."""
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "dead_letters", dead_letters)
        object.__setattr__(self, "mapped", mapped)


def merged(segments: Sequence[Segment]) -> Segment:
    """Return segments that touch each other as one; a large one with dictionaries where these save much."""
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
    """False where too many differ among the first alone: to encode them all takes four times as long."""
    first = column.slice(0, len(column) // _MIN_REPEATS + 1)
    return bool(pc.count_distinct(first).as_py() * _MIN_REPEATS < len(column))


def _narrow(encoded: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return it with indices as small as they can be."""
    distinct = len(encoded.dictionary)
    kind = pa.int8() if distinct < 1 << 7 else pa.int16() if distinct < 1 << 15 else pa.int32()
    return pa.DictionaryArray.from_arrays(encoded.indices.cast(kind), encoded.dictionary)


def _slice(table: pa.Table, start: int, end: int) -> pa.Table:
    first, after = np.searchsorted(table.column(OFFSET).to_numpy(), [start, end])
    return table.slice(first, after - first)
