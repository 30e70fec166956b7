"""A set of records by partition and offset, few ranges or a hundred thousand single ones alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges, merge
from spark_jobs.schema.metadata_columns import GENERATION, OFFSET, PARTITION

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Ranges ordered by partition and start, touching ones merged."""

    ranges: tuple[OffsetRange, ...]
    _bounds: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        found: dict[int, list[OffsetRange]] = {}
        for each in self.ranges:
            found.setdefault(each.partition, []).append(each)
        bounds = {
            partition: (np.array([r.start for r in own]), np.array([r.end for r in own]))
            for partition, own in found.items()
        }
        object.__setattr__(self, "_bounds", bounds)

    @classmethod
    def of(cls, ranges: Iterable[OffsetRange]) -> Coordinates:
        """Merge the ranges; empty ones go."""
        return cls(merge(ranges))

    @classmethod
    def of_rows(cls, rows: pa.Table) -> Coordinates:
        """Return where the rows stand."""
        return cls(tuple(_runs(rows)))

    def holds(self, rows: pa.Table) -> NDArray[np.bool_]:
        """Return which rows stand at one of them; a row without coordinates does not."""
        partitions, offsets = (
            pc.fill_null(rows.column(name), -1).to_numpy().astype(np.int64) for name in (PARTITION, OFFSET)
        )
        inside = np.zeros(len(offsets), dtype=np.bool_)
        for partition in self._bounds:
            here = np.flatnonzero(partitions == partition)
            inside[here] = self.hold(partition, offsets[here])
        return inside

    def hold(self, partition: int, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of a partition's offsets are among them."""
        starts, ends = self._bounds.get(partition, _NONE)
        if not len(starts):
            return np.zeros(len(offsets), dtype=np.bool_)
        at = np.searchsorted(starts, offsets, side="right") - 1
        found: NDArray[np.bool_] = (at >= 0) & (offsets < ends[at])
        return found

    def overlap(self, span: OffsetRange) -> bool:
        """Whether any lies in the range."""
        starts, ends = self._bounds.get(span.partition, _NONE)
        at = int(np.searchsorted(ends, span.start, side="right"))
        return at < len(starts) and bool(starts[at] < span.end)

    def cover(self, span: OffsetRange) -> bool:
        """Whether every offset of the range is among them."""
        starts, ends = self._bounds.get(span.partition, _NONE)
        at = int(np.searchsorted(starts, span.start, side="right")) - 1
        return at >= 0 and bool(ends[at] >= span.end)

    def within(self, ranges: Iterable[OffsetRange]) -> Coordinates:
        """Return those that lie in the ranges."""
        found: list[OffsetRange] = []
        for r in ranges:
            starts, ends = self._bounds.get(r.partition, _NONE)
            inside = slice(np.searchsorted(ends, r.start, side="right"), np.searchsorted(starts, r.end))
            own = zip(starts[inside].tolist(), ends[inside].tolist(), strict=True)
            found += [OffsetRange(r.partition, max(start, r.start), min(end, r.end)) for start, end in own]
        return Coordinates.of(found)

    @property
    def hull(self) -> OffsetRanges:
        """Return by partition the range from the first to the last."""
        return OffsetRanges.of(
            OffsetRange(partition, int(starts[0]), int(ends[-1]))
            for partition, (starts, ends) in self._bounds.items()
        )


def of_generation(rows: pa.Table, generation: int) -> NDArray[np.bool_]:
    """Return which rows are of the generation."""
    found: NDArray[np.bool_] = pc.fill_null(
        pc.equal(rows.column(GENERATION), generation), fill_value=False
    ).to_numpy()
    return found


_NONE = (np.empty(0, np.int64), np.empty(0, np.int64))


def _runs(rows: pa.Table) -> Iterator[OffsetRange]:
    partitions, offsets = (rows.column(name).to_numpy() for name in (PARTITION, OFFSET))
    for partition in np.unique(partitions).tolist():
        own = np.unique(offsets[partitions == partition])
        cuts = np.flatnonzero(np.diff(own) != 1) + 1
        for run in np.split(own, cuts):
            yield OffsetRange(partition, int(run[0]), int(run[-1]) + 1)
