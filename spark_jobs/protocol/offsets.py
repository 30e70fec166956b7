"""Offset ranges: cutting, comparing, and the schemas of their records. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from spark_jobs.protocol.texts import stored_as


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
    """The ranges of one batch: at most one per partition, in partition order."""

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
        """End offset (exclusive) by partition: the next offset after the commit."""
        return {r.partition: r.end for r in self.ranges}

    @property
    def records(self) -> int:
        """Number of offsets covered; an upper bound of the number of records (markers, compaction)."""
        return sum(len(r) for r in self.ranges)

    def before(self, stops: Mapping[int, int]) -> OffsetRanges:
        """Return the ranges up to these offsets, one by partition; whole partitions if none is given."""
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


# What names a schema in its registry.


_END_OF_NUMBERS = 1 << 63
_OF_KEY = "key/"
_TEXT_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|global-[1-9][0-9]{0,18}")


@stored_as(str, write=str, read=lambda text: SchemaId.parse(text))  # noqa: PLW0108  (is not there yet)
@dataclass(frozen=True, slots=True)
class SchemaId:
    """A number, as values begin with, or a GUID, as headers hold (``str(UUID(bytes=…))``).

    Apicurio's global ids count apart from those of contents: they are ``global-7``. Numbers come first in
    order. Its text, also as JSON and as a key of JSON's maps, is ``7`` or the GUID.
    """

    value: int | str

    def __post_init__(self) -> None:
        value = self.value
        is_id = 0 <= value < _END_OF_NUMBERS if isinstance(value, int) else _TEXT_ID.fullmatch(value)
        if not is_id:
            raise ValueError(f"not a schema id: {value!r}")

    @classmethod
    def parse(cls, text: str) -> SchemaId:
        """Read ``str`` back; raises ``ValueError`` for any other text, another spelling of the same too."""
        found = cls(int(text) if text.isdecimal() else text)
        if str(found) != text:
            raise ValueError(f"not a schema id: {text!r}")
        return found

    def __lt__(self, other: SchemaId) -> bool:
        return self._place < other._place

    def __str__(self) -> str:
        return str(self.value)

    @property
    def _place(self) -> tuple[int, int, str]:
        value = self.value
        return (value, 0, "") if isinstance(value, int) else (_END_OF_NUMBERS, len(value), value)


@stored_as(str, write=str, read=lambda text: SchemaKey.parse(text))  # noqa: PLW0108  (is not there yet)
@dataclass(frozen=True, slots=True)
class SchemaKey:
    """Schema id in a value or a record's key.

    An id, and in Protobuf which message of it, by index at each level. Its text is that of the id, with
    indexes ``7:0.1``, of a record's key ``key/7``. Those of values come first in order.
    """

    schema_id: SchemaId
    indexes: tuple[int, ...] = ()
    of_key: bool = False

    @classmethod
    def parse(cls, text: str) -> SchemaKey:
        """Read ``str`` back; raises ``ValueError`` for any other text."""
        name, _, indexes = text.removeprefix(_OF_KEY).partition(":")
        numbers = tuple(map(int, indexes.split("."))) if indexes else ()
        found = cls(SchemaId.parse(name), numbers, of_key=text.startswith(_OF_KEY))
        if str(found) != text:
            raise ValueError(f"not a schema and a message in it: {text!r}")
        return found

    def __lt__(self, other: SchemaKey) -> bool:
        return (self.of_key, self.schema_id, self.indexes) < (other.of_key, other.schema_id, other.indexes)

    def __str__(self) -> str:
        indexes = ".".join(map(str, self.indexes))
        whose = _OF_KEY if self.of_key else ""
        return f"{whose}{self.schema_id}:{indexes}" if indexes else f"{whose}{self.schema_id}"


# By which schema a record is read that does not name its own: by where it stands.
#
# Offsets ascend from batch to batch, so the spans of a partition begin in the order in which they are kept.


@stored_as(
    tuple[SchemaKey, dict[int, int]],
    write=lambda span: (str(span.key), span.starts),
    read=lambda stored: SchemaSpan(*stored),
)
@dataclass(frozen=True, slots=True)
class SchemaSpan:
    """``key`` reads the records from these offsets on, by partition, until a later span begins.

    The first one reads all that is before any, too: what was drained when something else was configured.
    """

    key: SchemaKey
    starts: dict[int, int]


Spans: TypeAlias = tuple[SchemaSpan, ...]


def spans_of(spans: Spans, *, of_key: bool) -> Spans:
    """Return the spans of records' keys, or those of values."""
    return tuple(span for span in spans if span.key.of_key is of_key)


def spans_after_drain(spans: Spans, keys: Iterable[SchemaKey], starts: Mapping[int, int]) -> Spans:
    """Return the spans with a batch that begins at these offsets; another schema adds a span."""
    for key in keys:
        last = next(reversed(spans_of(spans, of_key=key.of_key)), None)
        if last is not None and last.key == key:
            longer = replace(last, starts={**starts, **last.starts})
            spans = tuple(longer if span is last else span for span in spans)
        else:
            spans = (*spans, SchemaSpan(key, dict(starts)))
    return spans


def spans_after_replay(spans: Spans, keys: Iterable[SchemaKey], starts: Mapping[int, int]) -> Spans:
    """Return the spans with a replay that was planned before any of them: all others come after it."""
    return (*(SchemaSpan(key, dict(starts)) for key in keys), *spans)


def spans_after_rollback(spans: Spans, next_offsets: Mapping[int, int]) -> Spans:
    """Return the spans of a table that was rolled back to these offsets; later ones are dropped."""
    kept = [
        replace(span, starts={p: at for p, at in span.starts.items() if at < next_offsets.get(p, 0)})
        for span in spans
    ]
    first = {span.key.of_key: span for span in reversed(kept)}
    return tuple(span for span in kept if span.starts or span is first[span.key.of_key])
