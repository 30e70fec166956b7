"""Which files of a table hold rows of offset ranges that are about to be replaced. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from spark_jobs.protocol.offsets import OffsetRange, merge


class Overlap(StrEnum):
    """How a file's rows relate to the ranges."""

    NONE = "none"  # no row of the file is in a range
    INSIDE = "inside"  # every row is: the file is dropped
    STRADDLES = "straddles"  # some may be: the file is rewritten without them


@dataclass(frozen=True, slots=True)
class FileBounds:
    """Smallest and largest values among a file's rows; all ends are inclusive."""

    generation: tuple[int, int]
    partition: tuple[int, int]
    offset: tuple[int, int]


@dataclass(frozen=True, slots=True)
class ReplacedOffsets:
    """Offset ranges of one generation, touching ones merged: several of a partition are fine."""

    generation: int
    ranges: tuple[OffsetRange, ...]

    @classmethod
    def of(cls, generation: int, ranges: Iterable[OffsetRange]) -> ReplacedOffsets:
        """Merge the ranges; empty ones go."""
        return cls(generation, merge(ranges))

    def overlap(self, bounds: FileBounds | None) -> Overlap:
        """Judge a file; without bounds (some row has no coordinates, or they were not counted) it straddles.

        Bounds of several partitions do not say which offsets belong to which, so such a file is inside only
        when its whole span of offsets is replaced in each of them.
        """
        if bounds is None:
            return Overlap.STRADDLES
        if not bounds.generation[0] <= self.generation <= bounds.generation[1]:
            return Overlap.NONE
        first, last = bounds.offset
        spans = [OffsetRange(p, first, last + 1) for p in range(bounds.partition[0], bounds.partition[1] + 1)]
        if not any(span.overlaps(r) for span in spans for r in self.ranges):
            return Overlap.NONE
        is_one_generation = bounds.generation[0] == bounds.generation[1]
        if is_one_generation and all(self._covers(span) for span in spans):
            return Overlap.INSIDE
        return Overlap.STRADDLES

    def _covers(self, span: OffsetRange) -> bool:
        return any(
            r.partition == span.partition and r.start <= span.start and span.end <= r.end for r in self.ranges
        )
