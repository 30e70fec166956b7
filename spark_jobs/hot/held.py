"""What a follower holds of a pipeline: a state of the lake and of each partition the tail that follows it.

It never changes: who has one has an exact answer, whatever comes, is drained or is let go of meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_jobs.hot.prefix import Prefix, prefix_of
from spark_jobs.hot.tail import Tail
from spark_jobs.hot.watermark import Watermark

if TYPE_CHECKING:
    from spark_jobs.hot.seam import Seam
    from spark_jobs.hot.segment import Segment
    from spark_jobs.hot.watermark import Epoch


@dataclass(frozen=True)
class Held:
    """``tails`` are of all partitions that the topic is known to have."""

    seam: Seam
    epoch: Epoch
    tails: Mapping[int, Tail]

    @classmethod
    def at(cls, seam: Seam, epoch: Epoch, positions: Mapping[int, int]) -> Held:
        """Return one that holds nothing yet and goes on from the positions."""
        return cls(seam, epoch, {p: Tail.at(epoch, p, offset) for p, offset in positions.items()})

    @property
    def ends(self) -> dict[int, int]:
        """Below which offsets every readable record is in an answer, by partition."""
        return {p: max(tail.end, self._seam_of(p)) for p, tail in self.tails.items()}

    @property
    def watermark(self) -> Watermark:
        """Which records an answer has."""
        return Watermark(self.epoch.generation, self.epoch.rollbacks, self.ends)

    @property
    def size_bytes(self) -> int:
        """What it takes beside the lake."""
        return sum(tail.size_bytes for tail in self.tails.values())

    @property
    def is_overtaken(self) -> bool:
        """True if the lake has records of some partition that did not come here yet."""
        return any(tail.end < self._seam_of(p) for p, tail in self.tails.items())

    def with_more(self, segments: Iterable[Segment], ends: Mapping[int, int]) -> Held:
        """Return it with what came next; below ``ends`` nothing further is readable."""
        tails = dict(self.tails)
        for segment in segments:
            tails[segment.partition] = tails[segment.partition].append(segment)
        for partition, end in ends.items():
            tails[partition] = tails[partition].up_to(end)
        return replace(self, tails=tails)

    def with_partitions(self, positions: Mapping[int, int]) -> Held:
        """Return it with further partitions, each from its position on."""
        new = {p: Tail.at(self.epoch, p, offset) for p, offset in positions.items() if p not in self.tails}
        return replace(self, tails={**self.tails, **new})

    def is_ahead_of(self, seam: Seam) -> bool:
        """True if it has a later state of the lake than this one, which somebody loaded earlier."""
        if seam.is_before(self.seam) or not self.goes_on_under(seam):
            return seam.is_before(self.seam)
        offsets = seam.progress.next_offsets
        return any(offsets.get(p, 0) < at for p, at in self.seam.progress.next_offsets.items())

    def goes_on_under(self, seam: Seam) -> bool:
        """True if records become the same rows with a newer state of the lake."""
        return _what_makes_rows(self.seam) == _what_makes_rows(seam)

    def under(self, seam: Seam) -> Held:
        """Return it with a newer state of the lake, of the same epoch, and without what that has by now."""
        offsets = seam.progress.next_offsets
        tails = {p: tail.covered(offsets.get(p, tail.start)) for p, tail in self.tails.items()}
        return replace(self, seam=seam, tails=tails)

    def prefix(self, *, age_ms: int, at: Watermark | None = None) -> Prefix:
        """Return what an answer is over, up to ``at`` where that is given."""
        seams = {p: self._seam_of(p) for p in self.tails}
        return prefix_of(self.seam, self.epoch, self.tails, seams=seams, age_ms=age_ms, at=at)

    def _seam_of(self, partition: int) -> int:
        """The table's next offset; of a partition that it does not know yet, where reading it began."""
        known = self.seam.progress.next_offsets
        return known.get(partition, self.tails[partition].start)


def _what_makes_rows(seam: Seam) -> tuple[object, ...]:
    progress, letters = seam.progress, seam.dead_letters
    epoch = seam.table.metadata.table_uuid, progress.generation, progress.rollbacks
    columns = seam.table.schema().fields, None if letters is None else letters.schema().fields
    # One that the registry did not have when it was asked here makes rows of what were dead letters.
    schemas = frozenset(progress.schemas)
    return *epoch, *columns, schemas, progress.columns, progress.kept_columns, progress.schema_spans
