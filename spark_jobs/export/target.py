"""The target topic of an export: created, or checked to contain the export's beginning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_jobs.export.ordered import LARGEST_AHEAD_MS
from spark_jobs.export.plan import ExportPlan, archived_chunks, count_records, offset_of_record
from spark_jobs.kafka.reader import RangeReader, open_reader
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import OffsetRange

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections
    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.protocol.source import SourceState

# What brokers would change, drop or refuse of old records, or of large ones.
SETTINGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": "1000000000",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str((1 << 63) - 1),
    "message.timestamp.after.max.ms": str(LARGEST_AHEAD_MS),
}
_COMPARED_RECORDS = 100
_CHUNK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Remainder:
    """The offsets of the archive that a partition of the target lacks.

    ``there`` is how many records it has by now, ``end`` where it ends.
    """

    offsets: OffsetRange
    there: int = 0
    end: int = 0


class _Record(NamedTuple):
    """A record; ``content`` is the part compared with other records."""

    offset: int
    content: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A target partition's complete contents; with ``keeps`` each record has its original offset."""

    plan: ExportPlan
    offsets: OffsetRange
    keeps: bool

    @property
    def end(self) -> int:
        """Return its end offset."""
        return self.offsets.end if self.keeps else self.plan.records[self.offsets.partition]

    def there(self, end: int) -> int:
        """Return the number of records below an offset of the target."""
        if not self.keeps:
            return end
        before = OffsetRange(self.offsets.partition, self.offsets.start, max(self.offsets.start, end))
        return count_records(self.plan.table, before, self.plan.generation)

    def records(self, number: int, count: int) -> dict[int, _Record]:
        """Return this many records from a position on, by their offset in the target."""
        windows = archived_chunks(self.plan.table, self.rest(number), self.plan.generation)
        found = islice(_records(chain.from_iterable(windows)), count)
        return {record.offset if self.keeps else at: record for at, record in enumerate(found, number)}

    def rest(self, number: int) -> OffsetRange:
        """Return the archive's offsets from a record on."""
        start = offset_of_record(self.plan.table, self.offsets, self.plan.generation, number)
        return OffsetRange(self.offsets.partition, start, self.offsets.end)


def find_left(
    plan: ExportPlan, connections: Connections, target: str, *, keep_offsets: bool = False
) -> list[Remainder]:
    """Return the start by partition, after comparing both ends of the target with the archive.

    Raises ``ConfigError``: ``export-target`` for a topic that is not as an export leaves it.
    """
    if target not in connections.admin.topics():
        return [Remainder(each) for each in plan.ranges]
    _check_settings(connections, target, keep_offsets=keep_offsets)
    state = connections.admin.source_state(target)
    if missing := [each.partition for each in plan.ranges if each.partition not in state.end]:
        raise fault("export-target.partition", number=missing[0], topic=target)
    others = state.end.keys() - {each.partition for each in plan.ranges}
    if filled := [p for p in sorted(others) if state.end[p]]:
        raise fault("export-target.filled", number=filled[0], topic=target)
    with open_reader(connections.kafka, target, chunk_bytes=_CHUNK_BYTES) as reader:
        return [_find_left_of(_Wanted(plan, each, keep_offsets), reader, state) for each in plan.ranges]


def make_topic(connections: Connections, target: str, partitions: int) -> None:
    """Create the topic if it is missing, with settings that keep records unchanged."""
    if target not in connections.admin.topics():
        connections.admin.make_topic(target, partitions, SETTINGS)


def _find_left_of(wanted: _Wanted, reader: RangeReader, state: SourceState) -> Remainder:
    partition, target = wanted.offsets.partition, state.topic
    low, end = state.low[partition], state.end[partition]
    if end > wanted.end:
        what = "offsets" if wanted.keeps else "records"
        raise fault("export-target.more", end=end, what=what, number=partition, most=wanted.end, topic=target)
    present = wanted.there(end)
    count = min(present, _COMPARED_RECORDS)
    first, last = wanted.records(0, count), wanted.records(present - count, count)
    if low > min(first, default=low):
        raise fault("export-target.lost", number=partition, low=low, topic=target)
    if partition in state.undecided and end in wanted.records(present, 1):
        raise fault("export-target.open", number=partition, topic=target)
    _compare(reader, target, OffsetRange(partition, low, max(first) + 1 if present > count else end), first)
    _compare(reader, target, OffsetRange(partition, min(last, default=end), end), last)
    return Remainder(wanted.rest(present), present, end)


def _compare(reader: RangeReader, target: str, there: OffsetRange, wanted: Mapping[int, _Record]) -> None:
    """Raise if records of the target differ from those of the archive."""
    found = {record.offset: record for record in _records(reader.read(there))}
    for offset in sorted(found.keys() | wanted.keys()):
        place = f"{there.partition}:{offset}"
        if (record := wanted.get(offset)) is None:
            raise fault("export-target.record", place=place, topic=target)
        if offset not in found or found[offset].content != record.content:
            raise fault("export-target.other", place=place, at=record.offset, topic=target)


def _records(chunks: Iterable[Chunk]) -> Iterator[_Record]:
    for chunk in chunks:
        columns = (chunk.timestamps_ms, chunk.keys, chunk.values, (each or None for each in chunk.headers))
        yield from map(_Record, chunk.offsets, zip(*columns, strict=True))


def _check_settings(connections: Connections, target: str, *, keep_offsets: bool) -> None:
    settings = connections.admin.topic_config(target)
    if (kind := settings.get("message.timestamp.type", "CreateTime")) != "CreateTime":
        raise fault("export-target.times", type=kind, topic=target)
    if "compact" in settings.get("cleanup.policy", ""):
        raise fault("export-target.compacted", topic=target)
    for name in ("retention.ms", "retention.bytes"):
        if settings.get(name, "-1") != "-1":
            raise fault("export-target.retention", name=name, value=settings[name], topic=target)
    ahead = int(settings.get("message.timestamp.after.max.ms", LARGEST_AHEAD_MS))
    if keep_offsets and ahead > LARGEST_AHEAD_MS:
        raise fault("export-target.ahead", most=LARGEST_AHEAD_MS, topic=target)
