"""Offsets an operator left out: kept with the table's progress, never taken for missing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass

from spark_jobs.protocol.json_codec import stored_as
from spark_jobs.protocol.offsets import OffsetRange, gaps


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
