"""The topic that an export fills: made for it, or found to hold the beginning of what it is to hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from spark_jobs.export.archived import ArchivedRecord, archived_records, offset_of_record
from spark_jobs.export.plan import ExportPlan
from spark_jobs.kafka.reader import open_reader
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.offsets import OffsetRange

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections
    from spark_jobs.kafka.reader import RangeReader
    from spark_jobs.protocol.source import SourceState

# What brokers would change, drop or refuse of old records, or of large ones.
SETTINGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": "1000000000",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str((1 << 63) - 1),
    "message.timestamp.after.max.ms": str((1 << 63) - 1),
}
_COMPARED_RECORDS = 100
_CHUNK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Left:
    """What a partition of the target lacks: offsets of the archive, and how many records it has by now."""

    offsets: OffsetRange
    there: int


def find_left(plan: ExportPlan, connections: Connections, target: str) -> list[Left]:
    """Return by partition where to go on, both ends of what is there having been compared with the archive.

    Raises ``ConfigError``: ``export-target`` for a topic that is not as an export leaves it.
    """
    if target not in connections.admin.topics():
        return [Left(each, 0) for each in plan.ranges]
    _check_settings(connections, target)
    state = connections.admin.source_state(target)
    if missing := [each.partition for each in plan.ranges if each.partition not in state.end]:
        raise _refused(target, f"has no partition {missing[0]}", "Add partitions, or name another topic.")
    others = state.end.keys() - {each.partition for each in plan.ranges}
    if filled := [p for p in sorted(others) if state.end[p]]:
        raise _refused(target, f"has records in partition {filled[0]}, which nothing is exported to")
    with open_reader(connections.kafka, target, chunk_bytes=_CHUNK_BYTES) as reader:
        return [_left(plan, each, reader, state) for each in plan.ranges]


def make_topic(connections: Connections, target: str, partitions: int) -> None:
    """Make the topic, unless it is there, as one that keeps what it is given as it is given."""
    if target not in connections.admin.topics():
        connections.admin.make_topic(target, partitions, SETTINGS)


def refuse_taken(target: str, drained_by: Callable[[str], str | None]) -> None:
    """Raise ``ConfigError`` (``export-target``) for a topic that a pipeline drains: its table would fill."""
    if (pipeline := drained_by(target)) is not None:
        raise _refused(target, f"is drained by the pipeline {pipeline}", "Name another topic.")


def _left(plan: ExportPlan, offsets: OffsetRange, reader: RangeReader, state: SourceState) -> Left:
    partition, records, target = offsets.partition, plan.records[offsets.partition], state.topic
    low, end = state.low[partition], state.end[partition]
    if low:
        raise _refused(target, f"has lost the first {low:,} records of partition {partition}")
    if end > records:
        raise _refused(target, f"has {end:,} records in partition {partition}, the archive {records:,}")
    at_ends = {0: min(end, _COMPARED_RECORDS), max(0, end - _COMPARED_RECORDS): min(end, _COMPARED_RECORDS)}
    for first, count in at_ends.items():
        _compare(plan, offsets, reader, target, OffsetRange(partition, first, first + count))
    return Left(
        OffsetRange(partition, offset_of_record(plan.table, offsets, plan.generation, end), offsets.end), end
    )


def _compare(
    plan: ExportPlan, offsets: OffsetRange, reader: RangeReader, target: str, there: OffsetRange
) -> None:
    """Raise where records of the target are not those of the archive that so many come before."""
    if not len(there):
        return
    first = offset_of_record(plan.table, offsets, plan.generation, there.start)
    rest = OffsetRange(offsets.partition, first, offsets.end)
    every = (record for _, part in archived_records(plan.table, rest, plan.generation) for record in part)
    wanted = {there.start + at: record for at, record in enumerate(islice(every, len(there)))}
    found = _read(reader, there)
    for offset, record in wanted.items():
        if found.get(offset) != record.content:
            told = f"has another record at {there.partition}:{offset} than the archive at {record.offset}"
            raise _refused(target, told)


def _read(reader: RangeReader, offsets: OffsetRange) -> Mapping[int, object]:
    return {
        offset: ArchivedRecord(offset, key, value, [*(headers or ())], at_ms).content
        for chunk in reader.read(offsets)
        for offset, at_ms, key, value, headers in zip(
            chunk.offsets, chunk.timestamps_ms, chunk.keys, chunk.values, chunk.headers, strict=True
        )
    }


def _check_settings(connections: Connections, target: str) -> None:
    settings = connections.admin.topic_config(target)
    if (kind := settings.get("message.timestamp.type", "CreateTime")) != "CreateTime":
        hint = "Set it to CreateTime, or name a topic that is not there yet."
        raise _refused(target, f"has message.timestamp.type {kind}, which changes times", hint)
    if "compact" in settings.get("cleanup.policy", ""):
        raise _refused(target, "is compacted, which drops records", "Name a topic that is not there yet.")


def _refused(target: str, message: str, hint: str = "Name a topic that is not there yet.") -> ConfigError:
    return ConfigError(f"the topic {target} {message}", code="export-target", hint=hint, topic=target)
