"""A segment: what a run of one partition's records came to. It never changes.

Every readable record of its offsets is a row, a dead letter, or counted: a tombstone, or one that a filter
left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.schema.metadata_columns import OFFSET

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_jobs.hot.watermark import Epoch

_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
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

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise ValueError(f"not a segment: [{self.start}, {self.end})")

    @property
    def size_bytes(self) -> int:
        """What it takes."""
        return sum(each.nbytes for each in (self.rows, self.dead_letters, self.tombstones, self.filtered))

    def between(self, start: int, end: int) -> Segment:
        """Return its part in ``[start, end)``, which overlaps it; nothing is copied."""
        start, end = max(start, self.start), min(end, self.end)
        if (start, end) == (self.start, self.end):
            return self
        return Segment(
            self.epoch,
            self.partition,
            start,
            end,
            _slice(self.rows, start, end),
            _slice(self.dead_letters, start, end),
            *(each[slice(*np.searchsorted(each, [start, end]))] for each in (self.tombstones, self.filtered)),
        )


def _slice(table: pa.Table, start: int, end: int) -> pa.Table:
    first, after = np.searchsorted(table.column(OFFSET).to_numpy(), [start, end])
    return table.slice(first, after - first)
