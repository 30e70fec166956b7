"""What is kept with a table's progress: offsets left out, columns replaced, dead letters taken out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field, replace

from spark_jobs.protocol.json_codec import stored_as
from spark_jobs.protocol.offsets import OffsetRange, gaps

# Columns that others took the place of, and what they still hold.


@dataclass(frozen=True, slots=True)
class KeptColumn:
    """A column of another type that ``column`` took the place of; it is called ``kept`` since.

    It has what did not fit the new type of rows from before, which are null in ``column``. ``generation``,
    ``until`` and ``next_offsets`` are of versions that read records again by them, and need them to be there.
    """

    column: str
    kept: str
    generation: int
    until: dict[int, int] = field(default_factory=dict)
    next_offsets: dict[int, int] = field(default_factory=dict)
    is_done: bool = False

    def reopened(self) -> KeptColumn:
        """Return the same to be done once more, after a rollback to rows that it had not reached."""
        return replace(self, is_done=False)

    def done(self) -> KeptColumn:
        """Return the same once nothing is left to do."""
        return replace(self, is_done=True)


def kept_names(kept: Iterable[KeptColumn]) -> frozenset[str]:
    """Return the names of the columns that no record is decoded into or compared with."""
    return frozenset(each.kept for each in kept)


def unfinished(kept: Iterable[KeptColumn]) -> KeptColumn | None:
    """Return the column whose change of type is under way."""
    return next((each for each in kept if not each.is_done), None)


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
