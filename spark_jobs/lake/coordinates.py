"""A set of records by partition and offset, for a few ranges or a hundred thousand single records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges, merge
from spark_jobs.schema.iceberg_types import GENERATION, OFFSET, PARTITION

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Offsets: TypeAlias = NDArray[np.int64]
    Bounds: TypeAlias = Mapping[int, tuple[Offsets, Offsets]]


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates:
    """Record coordinates; ``bounds`` are by partition starts and ends of sorted, disjoint ranges."""

    bounds: Bounds

    @classmethod
    def of(cls, ranges: Iterable[OffsetRange]) -> Coordinates:
        """Merge the ranges; empty ones are dropped."""
        found: dict[int, list[OffsetRange]] = {}
        for each in merge(ranges):
            found.setdefault(each.partition, []).append(each)
        return cls(
            {p: (_array(r.start for r in own), _array(r.end for r in own)) for p, own in found.items()}
        )

    @classmethod
    def of_rows(cls, rows: pa.Table) -> Coordinates:
        """Return the rows' coordinates."""
        partitions, offsets = (rows.column(name).to_numpy() for name in (PARTITION, OFFSET))
        own = pc.unique(rows.column(PARTITION)).to_pylist()
        return cls({partition: _runs(offsets[partitions == partition]) for partition in own})

    def __len__(self) -> int:
        return sum(len(starts) for starts, _ in self.bounds.values())

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        """Return the ranges by partition and start."""
        return tuple(
            OffsetRange(partition, start, end)
            for partition, (starts, ends) in sorted(self.bounds.items())
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        )

    @property
    def hull(self) -> OffsetRanges:
        """Return, by partition, the range from the first to the last."""
        return OffsetRanges.of(
            OffsetRange(partition, int(starts[0]), int(ends[-1]))
            for partition, (starts, ends) in self.bounds.items()
        )

    @property
    def counts(self) -> dict[int, int]:
        """Return the number of records by partition."""
        return {partition: int((ends - starts).sum()) for partition, (starts, ends) in self.bounds.items()}

    def holds(self, rows: pa.Table) -> NDArray[np.bool_]:
        """Return the mask of rows at these coordinates; a row without coordinates is not."""
        partitions, offsets = (
            pc.fill_null(rows.column(name), -1).to_numpy().astype(np.int64) for name in (PARTITION, OFFSET)
        )
        inside = np.zeros(len(offsets), dtype=np.bool_)
        for partition in self.bounds:
            here = np.flatnonzero(partitions == partition)
            inside[here] = self.hold(partition, offsets[here])
        return inside

    def hold(self, partition: int, offsets: Offsets) -> NDArray[np.bool_]:
        """Return the mask of a partition's offsets that are included."""
        if partition not in self.bounds:
            return np.zeros(len(offsets), dtype=np.bool_)
        starts, ends = self.bounds[partition]
        at = np.searchsorted(starts, offsets, side="right") - 1
        found: NDArray[np.bool_] = (at >= 0) & (offsets < ends[at])
        return found

    def overlap(self, span: OffsetRange) -> bool:
        """True if the range contains any of them."""
        starts, _ = self._inside(span)
        return len(starts) > 0

    def cover(self, span: OffsetRange) -> bool:
        """True if every offset of the range is included."""
        starts, ends = self.bounds.get(span.partition, _NONE)
        at = int(np.searchsorted(starts, span.start, side="right")) - 1
        return at >= 0 and bool(ends[at] >= span.end)

    def within(self, spans: OffsetRanges) -> Coordinates:
        """Return the coordinates within the ranges."""
        found = {}
        for span in spans:
            starts, ends = self._inside(span)
            if len(starts):
                found[span.partition] = np.maximum(starts, span.start), np.minimum(ends, span.end)
        return Coordinates(found)

    def _inside(self, span: OffsetRange) -> tuple[Offsets, Offsets]:
        starts, ends = self.bounds.get(span.partition, _NONE)
        first, end = np.searchsorted(ends, span.start, side="right"), np.searchsorted(starts, span.end)
        return starts[first:end], ends[first:end]


def of_generation(rows: pa.Table, generation: int) -> NDArray[np.bool_]:
    """Return the mask of rows of the generation."""
    found: NDArray[np.bool_] = pc.fill_null(
        pc.equal(rows.column(GENERATION), generation), fill_value=False
    ).to_numpy()
    return found


_NONE = (np.empty(0, np.int64), np.empty(0, np.int64))


def _runs(offsets: Offsets) -> tuple[Offsets, Offsets]:
    every = np.sort(offsets)  # as they mostly come, which a hash table would not see
    every = every[np.diff(every, prepend=-1) != 0]
    breaks = np.flatnonzero(np.diff(every) != 1)
    return every[np.concatenate([[0], breaks + 1])], every[np.concatenate([breaks, [-1]])] + 1


def _array(offsets: Iterable[int]) -> Offsets:
    return np.fromiter(offsets, np.int64)
