"""What a follower says of when Kafka had no more is so, however long it was busy meanwhile."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import KafkaError, Message

from spark_jobs.kafka.tail_reader import TailReader

# An end-of-partition event as librdkafka queues it, when a fetch came back empty.
END = Message(topic="t", partition=0, offset=7, error=KafkaError(KafkaError._PARTITION_EOF))


class _Queue:
    def __init__(self, *queued: list[Any]) -> None:
        self._queued = iter(queued)

    def consume(self, _count: int, _timeout: float) -> list[Any]:
        return next(self._queued)


def test_an_end_that_waited_in_the_queue_is_as_old_as_it_may_be() -> None:
    """It may have come right after the queue was last seen empty; one that was waited for is new."""
    reader = TailReader({"bootstrap.servers": "127.0.0.1:1"}, "t")
    reader.close()
    reader._consumer = _Queue([], [], [END], [], [END])  # type: ignore[assignment]
    reader._positions = {0: 7}
    assert not reader.take(0)
    emptied = time.monotonic()
    time.sleep(0.05)  # decoding, asking a registry
    busy = reader.take(0)
    assert busy.ends == {0: 7}
    assert busy.asked_at <= emptied
    before = time.monotonic()
    assert reader.take(0).asked_at >= before
