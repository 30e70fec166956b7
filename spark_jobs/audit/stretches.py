"""Offsets of an audit, in pieces with the same properties."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.drain.planning import water_fill
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.progress_parts import cut_at_shapes, cut_at_skips, skipped_ranges

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.protocol.source import SourceState

WINDOW_OFFSETS = 100_000


@dataclass(frozen=True, slots=True)
class Stretch:
    """Offsets that are all skipped or not, and were shaped by one ``shape``."""

    offsets: OffsetRange
    is_skipped: bool
    shape: str


def stretches_of(table: Table, source: SourceState, newest_offsets: int | None) -> Iterator[Stretch]:
    """Return the drained offsets of the current generation, cut at the low watermark, shapes and skips.

    Of a mirror that was made anew they are those since then. What kills a decoder was skipped, and must not
    be decoded here.
    """
    progress = progress_of(table)
    begun = progress.first_offsets
    drained = {p: end - begun.get(p, 0) for p, end in progress.next_offsets.items()}
    wanted = drained if newest_offsets is None else water_fill(drained, newest_offsets)
    for partition, end in sorted(progress.next_offsets.items()):
        start = end - wanted[partition]
        skipped = skipped_ranges(progress.skipped, progress.generation, partition)
        low = max(start, min(source.low.get(partition, end), end))
        for whole in (OffsetRange(partition, start, low), OffsetRange(partition, low, end)):
            for piece, is_skipped in cut_at_skips(whole, skipped) if len(whole) else ():
                for of_one, shape in cut_at_shapes(piece, progress.shaped_by):
                    yield from (Stretch(window, is_skipped, shape) for window in of_one.cut(WINDOW_OFFSETS))
