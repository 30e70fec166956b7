"""A partition's tail, segments that touch each other, and what an answer takes of it.

A tail never changes: who has one has the same records whatever comes, is drained or is evicted meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from spark_jobs.hot.segment import Segment
from spark_jobs.hot.watermark import Epoch


@dataclass(frozen=True, slots=True)
class Tail:
    """What is held of a partition's records in ``[start, end)``, all of one epoch.

    ``end`` may lie past the last segment's: what is between holds no readable record.
    """

    epoch: Epoch
    partition: int
    start: int
    end: int
    segments: tuple[Segment, ...] = ()

    @classmethod
    def at(cls, epoch: Epoch, partition: int, offset: int) -> Tail:
        """Return one that holds nothing and goes on from the offset."""
        return cls(epoch, partition, offset, offset)

    def append(self, segment: Segment) -> Tail:
        """Return it with what comes next. Raises ``ValueError`` for what does not touch it."""
        if (segment.epoch, segment.partition, segment.start) != (self.epoch, self.partition, self.end):
            raise ValueError(f"segment {segment.partition}:{segment.start} does not touch {self.end}")
        return replace(self, end=segment.end, segments=(*self.segments, segment))

    def up_to(self, end: int) -> Tail:
        """Return it with the news that offsets below ``end`` hold no further readable record."""
        return replace(self, end=max(self.end, end))

    def under(self, epoch: Epoch, seam: int) -> Tail:
        """Return it as it is under a table that stands at ``seam``: anew in another epoch or behind it."""
        if self.epoch == epoch and self.end >= seam:
            return self
        return Tail.at(epoch, self.partition, seam)

    def evicted(self, seam: int, *, keep_bytes: int) -> Tail:
        """Return it without its oldest segments until it takes no more; what is not in the table stays."""
        start, taken, left = self.start, self.size_bytes, list(self.segments)
        while left and left[0].end <= seam and taken > keep_bytes:
            gone = left.pop(0)
            start, taken = gone.end, taken - gone.size_bytes
        return replace(self, start=start, segments=tuple(left))

    @property
    def size_bytes(self) -> int:
        """What its segments take."""
        return sum(segment.size_bytes for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Share:
    """One partition of an answer: the lake has ``[start, seam)``, the segments what is in ``[seam, end)``."""

    partition: int
    start: int
    seam: int
    end: int
    segments: tuple[Segment, ...] = ()

    @property
    def hot_rows(self) -> int:
        """How many rows are not in the lake."""
        return sum(segment.rows.num_rows for segment in self.segments)


def shares_of(
    epoch: Epoch,
    starts: Mapping[int, int],
    seams: Mapping[int, int],
    tails: Mapping[int, Tail],
    until: Mapping[int, int] | None = None,
) -> tuple[Share, ...]:
    """Return what an answer has of each partition of ``seams``, in their order.

    ``starts`` and ``seams`` are the first offset that the table ever had of a partition and its next one.
    A tail of another epoch, or that begins past the seam, adds nothing: no answer shows what lies behind a
    gap. ``until`` are ends that it must not go beyond; partitions that it does not name are left out.
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
