"""What a producer's compressed batch comes to when a client unpacks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from spark_jobs.kafka.reader import RangeReader
from spark_jobs.protocol.errors import RetryableError
from spark_jobs.protocol.offsets import OffsetRange

if TYPE_CHECKING:
    from prove.lab.kafka_server import KafkaBroker

pytestmark = pytest.mark.kafka

MIB = 1024 * 1024


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_batch_that_unpacks_to_far_more_than_was_sent_is_read_or_named(
    kafka: KafkaBroker, topic_name: str, codec: str
) -> None:
    """The client bounds zstd's alone: what it refuses is told with the property that mends it."""
    kafka.create_topic(topic_name)
    producer = Producer(
        {"bootstrap.servers": kafka, "compression.type": codec, "message.max.bytes": 64 * MIB}
    )
    value = b"x" * 8 * MIB
    producer.produce(topic_name, value)
    assert producer.flush(30) == 0

    def lengths(receive_bytes: int) -> list[int]:
        properties = {
            "bootstrap.servers": kafka,
            "fetch.max.bytes": str(MIB),
            "receive.message.max.bytes": str(receive_bytes),
        }
        reader = RangeReader(properties, topic_name, max_chunk_bytes=4 * MIB, queue_bytes=8 * MIB)
        try:
            return [
                len(value or b"")
                for value in (value for chunk in reader.read(OffsetRange(0, 0, 1)) for value in chunk.values)
            ]
        finally:
            reader.close()

    assert lengths(64 * MIB) == [len(value)]
    if codec != "zstd":
        assert lengths(2 * MIB) == [len(value)]
        return
    with pytest.raises(RetryableError, match="Decompression") as caught:
        lengths(2 * MIB)
    assert caught.value.code == "records-damaged"
    assert "raise kafka.receive.message.max.bytes" in (caught.value.hint or "")
