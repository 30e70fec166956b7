"""Time of the next record of each partition, by one short-lived consumer."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from spark_jobs.kafka.client_properties import close_consumer, consumer_properties, new_client
from spark_jobs.kafka.errors import ClientTroubles

# Brokers give at least one batch whatever the limit: enough for the first record, and little else.
_QUEUE_BYTES = 256 * 1024
TIMEOUT_SECONDS = 5.0


def first_record_times(
    properties: Mapping[str, str],
    topic: str,
    positions: Mapping[int, int],
    *,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> dict[int, int]:
    """Return the time (epoch ms) of the first record at or after each position, by partition.

    Records of open and aborted transactions count: Kafka keeps them no longer than others.
    A partition is left out when its record has no time, when nothing readable came in time, or when the
    position is not there any more: what is known must not wait for what is not.
    """
    if not positions:
        return {}
    troubles = ClientTroubles()
    every = {
        **consumer_properties(properties, queue_bytes=_QUEUE_BYTES),
        "isolation.level": "read_uncommitted",
    }
    consumer = new_client(Consumer, every, troubles)
    found: dict[int, int | None] = {}
    deadline = time.monotonic() + timeout_seconds
    try:
        consumer.assign([TopicPartition(topic, p, offset) for p, offset in sorted(positions.items())])
        while len(found) < len(positions) and time.monotonic() < deadline and troubles.refused is None:
            for message in consumer.consume(len(positions), 0.2):
                partition = message.partition()
                if partition is None or partition in found:
                    continue
                milliseconds = message.timestamp()[1] if message.error() is None else None
                found[partition] = milliseconds
                consumer.incremental_unassign([TopicPartition(topic, partition)])
    except KafkaException:
        pass  # what was found so far is the answer; the survey itself reports a broker that is away
    finally:
        close_consumer(consumer, topic)
    return {partition: ms for partition, ms in found.items() if ms is not None and ms >= 0}
