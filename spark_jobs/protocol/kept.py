"""What is kept with a table's progress: offsets left out, columns replaced, dead letters taken out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, replace

from spark_jobs.protocol.json_codec import stored_as
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges, gaps

# Columns that others took the place of: what they still hold, and of which records.


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


# Offsets an operator left out: kept with the table's progress, never taken for missing.


@stored_as(tuple[int, int, int, int, str], write=astuple, read=lambda stored: Skip(*stored))
@dataclass(frozen=True, slots=True)
class Skip:
    """Offsets ``start <= offset < end`` of one partition in one generation, and why they are not drained."""

    generation: int
    partition: int
    start: int
    end: int
    reason: str


def with_skipped(
    skips: Iterable[Skip], generation: int, ranges: Iterable[OffsetRange], reason: str
) -> tuple[Skip, ...]:
    """Add the ranges; what follows on the one before it for the same reason becomes one with it."""
    joined = list(skips)
    for r in ranges:
        before = joined[-1] if joined else None
        same = before and (before.generation, before.partition, before.reason) == (
            generation,
            r.partition,
            reason,
        )
        if before and same and before.end == r.start:
            joined[-1] = Skip(generation, r.partition, before.start, r.end, reason)
        elif len(r):
            joined.append(Skip(generation, r.partition, r.start, r.end, reason))
    return tuple(joined)


def kept_below(skips: Iterable[Skip], generation: int, next_offsets: Mapping[int, int]) -> tuple[Skip, ...]:
    """Return what stays skipped when a generation stands at ``next_offsets`` again: the rest is drained."""
    kept: list[Skip] = []
    for skip in skips:
        limit = next_offsets.get(skip.partition, 0) if skip.generation == generation else skip.end
        end = min(skip.end, limit)
        if end > skip.start:
            kept.append(Skip(skip.generation, skip.partition, skip.start, end, skip.reason))
    return tuple(kept)


def skipped_ranges(skips: Iterable[Skip], generation: int, partition: int) -> tuple[OffsetRange, ...]:
    """Return the skipped ranges of one partition in one generation."""
    return tuple(
        OffsetRange(skip.partition, skip.start, skip.end)
        for skip in skips
        if (skip.generation, skip.partition) == (generation, partition)
    )


def cut_at_skips(whole: OffsetRange, skipped: Iterable[OffsetRange]) -> Iterator[tuple[OffsetRange, bool]]:
    """Yield ``whole`` in order, in pieces that are skipped wholly or not at all, with which of the two."""
    drained = gaps(whole, skipped)
    pieces = [(r, False) for r in drained] + [(r, True) for r in gaps(whole, drained)]
    yield from sorted(pieces)


# The dead letters that a commit takes out of their table or puts back, kept whole in a file.


@dataclass(frozen=True, slots=True)
class KeptLetters:
    """A file under ``state:`` with so many ``letters``; its ``name`` has the digest of what is in it."""

    name: str
    letters: int

    @property
    def digest(self) -> str:
        """Return the first hex digits of the content's SHA-256."""
        return self.name.removesuffix(".parquet").rpartition("-")[2]
