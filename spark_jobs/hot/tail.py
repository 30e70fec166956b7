"""A partition's tail, segments that touch each other, and what an answer takes of it.

A tail never changes: who has one has the same records whatever comes, is drained or is let go of meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import takewhile

from spark_jobs.hot.segment import SMALL_ROWS, Segment, merged
from spark_jobs.hot.watermark import Epoch

_TOGETHER = 8


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
        return replace(self, end=segment.end, segments=_merged((*self.segments, segment)))

    def up_to(self, end: int) -> Tail:
        """Return it with the news that offsets below ``end`` hold no further readable record."""
        return replace(self, end=max(self.end, end))

    def covered(self, seam: int) -> Tail:
        """Return it without the segments that a table which stands at ``seam`` has whole."""
        left = tuple(each for each in self.segments if each.end > seam)
        # Between two segments there may be offsets without a readable record, and the seam among them.
        start = min(seam, left[0].start if left else self.end)
        return replace(self, start=max(self.start, start), segments=left)

    @property
    def size_bytes(self) -> int:
        """What its segments take."""
        return sum(segment.size_bytes for segment in self.segments)


def _merged(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    """Merge the last ones once there are eight of a size, so that each row is copied some four times."""
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
