"""What one answer is over: a state of the lake and, of each partition, the hot segments that follow it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, Or

from spark_jobs.hot.seam import Seam
from spark_jobs.hot.tail import Share, Tail, shares_of
from spark_jobs.hot.watermark import Epoch, Watermark
from spark_jobs.lake.row_filters import is_below, is_in_range
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.schema.metadata_columns import GENERATION

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

_COLUMNS = (
    *(("generation", pa.int32()), ("rollbacks", pa.int32()), ("partition", pa.int32())),
    *((name, pa.int64()) for name in ("start_offset", "seam_offset", "end_offset", "hot_rows")),
    *(("snapshot_id", pa.int64()), ("age_ms", pa.int64())),
)


@dataclass(frozen=True)
class Prefix:
    """Every readable record below the watermark's ends and none at or past them, but for skipped ones.

    ``shares`` have what the lake has in their ``[start, seam)``. ``age_ms`` is how long ago Kafka was asked
    where it ends. With ``is_cut`` the lake has more than the answer may hold.
    """

    seam: Seam
    shares: tuple[Share, ...]
    age_ms: int
    is_cut: bool = False

    @property
    def watermark(self) -> Watermark:
        """Which records these are."""
        progress = self.seam.progress
        ends = {share.partition: share.end for share in self.shares}
        return Watermark(progress.generation, progress.rollbacks, ends)

    @property
    def lake_filter(self) -> BooleanExpression:
        """What rows and dead letters of the lake have to meet."""
        if not self.is_cut:
            return AlwaysTrue()
        generation = self.seam.progress.generation
        kept = [is_in_range(OffsetRange(s.partition, 0, s.end), generation) for s in self.shares]
        earlier = is_below(GENERATION, generation)
        return Or(earlier, *kept) if kept else earlier

    @cached_property
    def rows(self) -> list[pa.Table]:
        """The rows that are not in the lake."""
        return [segment.rows for share in self.shares for segment in share.segments]

    @cached_property
    def dead_letters(self) -> list[pa.Table]:
        """The dead letters that are not in the lake."""
        return [segment.dead_letters for share in self.shares for segment in share.segments]

    def as_table(self) -> pa.Table:
        """Return the watermark as rows, one of each partition, in their order."""
        marked = self.watermark
        lake = self.seam.table.metadata.current_snapshot_id
        rows = [
            (
                *(marked.generation, marked.rollbacks, each.partition),
                *(each.start, each.seam, each.end, each.hot_rows, lake, self.age_ms),
            )
            for each in self.shares
        ]
        columns = zip(*rows, strict=True) if rows else [()] * len(_COLUMNS)
        arrays = [pa.array(values, kind) for values, (_, kind) in zip(columns, _COLUMNS, strict=True)]
        return pa.Table.from_arrays(arrays, names=[name for name, _ in _COLUMNS])


def prefix_of(
    seam: Seam,
    epoch: Epoch,
    tails: Mapping[int, Tail],
    *,
    seams: Mapping[int, int],
    age_ms: int,
    at: Watermark | None = None,
) -> Prefix:
    """Return what is to be answered from; ``seams`` are the next offsets of all of the topic's partitions.

    ``at`` is a watermark of the same epoch that it must not go beyond.
    """
    progress = seam.progress
    until = None if at is None else at.ends
    shares = shares_of(epoch, progress.starts, seams, tails, until)
    is_cut = until is not None and any(offset > until.get(p, 0) for p, offset in seams.items())
    return Prefix(seam, shares, age_ms, is_cut)
