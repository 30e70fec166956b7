"""A topic's contents for readers, and a compacted topic."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public names that it does not list
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from prove.lab.kafka_server import KafkaBroker, Record
from spark_jobs.kafka.reader import open_reader
from spark_jobs.protocol.offsets import OffsetRange

if TYPE_CHECKING:
    from prove.lab.pipeline_lab import Lab

# A segment that has ended is compacted at once; the one that is written to never is.
COMPACTED_EAGERLY: dict[str, Any] = {
    "cleanup_policy": "compact",
    "segment_ms": 100,
    "min_cleanable_dirty_ratio": 0.01,
    "max_compaction_lag_ms": 100,
}
_COMPACTION_SECONDS = 60.0


def stream(lab: Lab, topic: str, partition: int) -> dict[int, tuple[Any, ...]]:
    """Return a partition's records by offset: key, value, headers and time."""
    with lab.connections() as connections:
        state = connections.admin.source_state(topic)
        with open_reader(connections.kafka, topic) as reader:
            return {
                offset: (key, value, headers or [], at_ms)
                for chunk in reader.read(OffsetRange(partition, state.low[partition], state.end[partition]))
                for offset, key, value, headers, at_ms in zip(
                    chunk.offsets, chunk.keys, chunk.values, chunk.headers, chunk.timestamps_ms, strict=True
                )
            }


def compact(lab: Lab, kafka: KafkaBroker, topic: str, records: Sequence[Record], *, few: int) -> None:
    """Produce to partition 0 of a topic ``COMPACTED_EAGERLY`` until few records are left; then stop that.

    One more record comes each time, so that a segment ends.
    """
    deadline = time.monotonic() + _COMPACTION_SECONDS
    kafka.produce(topic, records)
    while len(stream(lab, topic, 0)) > few:
        assert time.monotonic() < deadline, "nothing was compacted"
        kafka.produce(topic, records[:1])
        time.sleep(0.3)
    kept = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[kept])
    client = AdminClient({"bootstrap.servers": kafka})
    client.incremental_alter_configs([resource])[resource].result(_COMPACTION_SECONDS)
