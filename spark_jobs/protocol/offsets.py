"""Offset ranges: what a batch covers, how it is cut, and how ranges compare. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from spark_jobs.protocol.json_codec import stored_as


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Records ``start <= offset < end`` of one partition of the batch's topic."""

    partition: int
    start: int
    end: int

    def __post_init__(self) -> None:
        if self.partition < 0 or self.start < 0 or self.end < self.start:
            raise ValueError(f"not an offset range: partition {self.partition} [{self.start}, {self.end})")

    def __len__(self) -> int:
        return self.end - self.start

    def __contains__(self, offset: object) -> bool:
        return isinstance(offset, int) and self.start <= offset < self.end

    def __str__(self) -> str:
        return f"{self.partition}:{self.start}-{self.end}"

    def overlaps(self, other: OffsetRange) -> bool:
        """True if any offset is in both ranges; ranges of different partitions never overlap."""
        return self.partition == other.partition and max(self.start, other.start) < min(self.end, other.end)

    def cut(self, max_records: int) -> Iterator[OffsetRange]:
        """Cut into consecutive ranges of at most ``max_records`` offsets that together equal this one."""
        if max_records <= 0:
            raise ValueError("max_records must be positive")
        for start in range(self.start, self.end, max_records):
            yield OffsetRange(self.partition, start, min(start + max_records, self.end))


@stored_as(
    tuple[tuple[int, int, int], ...],
    write=lambda ranges: [(r.partition, r.start, r.end) for r in ranges],
    read=lambda triples: OffsetRanges(tuple(OffsetRange(*triple) for triple in triples)),
)
@dataclass(frozen=True, slots=True)
class OffsetRanges:
    """At most one range per partition, in partition order: what one batch covers."""

    ranges: tuple[OffsetRange, ...]

    def __post_init__(self) -> None:
        partitions = [r.partition for r in self.ranges]
        if partitions != sorted(set(partitions)):
            raise ValueError("ranges must be in partition order, one per partition")

    @classmethod
    def of(cls, ranges: Iterable[OffsetRange]) -> OffsetRanges:
        """Order the ranges by partition."""
        return cls(tuple(sorted(ranges)))

    @classmethod
    def between(cls, starts: Mapping[int, int], ends: Mapping[int, int]) -> OffsetRanges:
        """Return a range per partition of ``ends``; both map a partition to an offset, ``ends`` exclusive."""
        return cls.of(OffsetRange(p, starts[p], end) for p, end in ends.items())

    @property
    def starts(self) -> dict[int, int]:
        """First offset by partition."""
        return {r.partition: r.start for r in self.ranges}

    @property
    def ends(self) -> dict[int, int]:
        """End offset (exclusive) by partition: the next offset once the batch is committed."""
        return {r.partition: r.end for r in self.ranges}

    @property
    def records(self) -> int:
        """Number of offsets covered; an upper bound of the records there are (markers, compaction)."""
        return sum(len(r) for r in self.ranges)

    def before(self, stops: Mapping[int, int]) -> OffsetRanges:
        """Return what lies before these offsets, one by partition; all of a partition without one."""
        ends = {r.partition: min(r.end, max(r.start, stops.get(r.partition, r.end))) for r in self.ranges}
        return OffsetRanges(tuple(r for r in OffsetRanges.between(self.starts, ends) if len(r)))

    def __iter__(self) -> Iterator[OffsetRange]:
        return iter(self.ranges)

    def __bool__(self) -> bool:
        return self.records > 0

    def __str__(self) -> str:
        return " ".join(str(r) for r in self.ranges)


NO_RANGES = OffsetRanges(())


def merge(ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Return the union as the fewest ranges, ordered by partition and start; touching ranges become one."""
    merged: list[OffsetRange] = []
    for r in sorted(r for r in ranges if len(r)):
        last = merged[-1] if merged else None
        if last and last.partition == r.partition and r.start <= last.end:
            merged[-1] = OffsetRange(r.partition, last.start, max(last.end, r.end))
        else:
            merged.append(r)
    return tuple(merged)


def gaps(whole: OffsetRange, parts: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Return the ranges of ``whole`` that no part covers, in order."""
    missing: list[OffsetRange] = []
    position = whole.start
    for part in merge(p for p in parts if p.overlaps(whole)):
        if part.start > position:
            missing.append(OffsetRange(whole.partition, position, part.start))
        position = max(position, part.end)
    if position < whole.end:
        missing.append(OffsetRange(whole.partition, position, whole.end))
    return tuple(missing)
