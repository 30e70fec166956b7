"""Columns that others took the place of: what they still hold, and of which records. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges, gaps
from spark_jobs.protocol.skips import Skip, skipped_ranges


@dataclass(frozen=True, slots=True)
class KeptColumn:
    """A column of another type that ``column`` took the place of; it is called ``kept`` since.

    Records of ``generation`` below the offsets ``until``, by partition, were drained before. One of them that
    does not fit the new type stays a row: null in ``column``, and in ``kept`` as it was. ``next_offsets`` are
    those from which on they are to be replayed, none once ``is_done``.
    """

    column: str
    kept: str
    generation: int
    until: dict[int, int]
    next_offsets: dict[int, int]
    is_done: bool = False

    def left(self, low: Mapping[int, int], skips: Iterable[Skip] = ()) -> tuple[OffsetRange, ...]:
        """Return what is to be replayed of what Kafka holds, from ``low`` on, and nobody skipped."""
        firsts = ((p, max(at, low.get(p, self.until[p]))) for p, at in sorted(self.next_offsets.items()))
        return tuple(
            piece
            for p, first in firsts
            if first < self.until[p]
            for piece in gaps(OffsetRange(p, first, self.until[p]), skipped_ranges(skips, self.generation, p))
        )

    def replayed(self, generation: int, ranges: OffsetRanges) -> KeptColumn:
        """Return the same after a replay of the ranges; what begins past the next offset leaves a hole."""
        starts, ends = ranges.starts, ranges.ends
        return replace(
            self,
            next_offsets={
                p: max(at, ends[p]) if generation == self.generation and starts.get(p, at + 1) <= at else at
                for p, at in self.next_offsets.items()
            },
        )

    def reopened(self) -> KeptColumn:
        """Return the same to be done once more, after a rollback to rows that it had not reached."""
        return replace(self, next_offsets=dict.fromkeys(self.until, 0), is_done=False)

    def done(self) -> KeptColumn:
        """Return the same once nothing is left to do."""
        return replace(self, next_offsets={}, is_done=True)


def kept_names(kept: Iterable[KeptColumn]) -> frozenset[str]:
    """Return the names of the columns that no record is decoded into or compared with."""
    return frozenset(each.kept for each in kept)


def unfinished(kept: Iterable[KeptColumn]) -> KeptColumn | None:
    """Return the column whose change of type is under way."""
    return next((each for each in kept if not each.is_done), None)


def fallbacks_at(kept: Iterable[KeptColumn], generation: int, partition: int, offset: int) -> dict[str, str]:
    """Return by column the one that takes what does not fit it of this record, newest to oldest."""
    falls: dict[str, str] = {}
    for each in kept:
        if each.generation == generation and offset < each.until.get(partition, 0):
            if each.column in falls:
                falls[each.kept] = falls[each.column]
            falls[each.column] = each.kept
    return falls
