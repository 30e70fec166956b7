"""Producers against a real broker: what they were told has arrived is there."""

from __future__ import annotations

import pytest
from confluent_kafka import Message, Producer

from prove.lab.kafka_server import KafkaBroker, unique_name
from spark_jobs.kafka.client_properties import transactional_properties
from spark_jobs.kafka.reader import RangeReader
from spark_jobs.protocol.offsets import OffsetRange
from tests.support.kafka_tunnel import refuses_first_request

pytestmark = pytest.mark.kafka


def test_a_refused_request_is_not_overtaken_by_the_next(kafka: KafkaBroker) -> None:
    """A leader that is not ready yet refuses a producer's first request and takes what it sends then.

    Were a later one taken before the first is told again, it would be the first that Kafka knows of the
    producer, and the first a duplicate: reported as arrived, committed, and nowhere.
    """
    topic = kafka.new_topic()
    told: list[object] = []

    def tell(error: object, message: Message) -> None:
        told.append(error or message.value())

    values = [b"first", b"second", b"third"]
    with refuses_first_request(kafka, topic) as servers:
        # Each record is a request.
        properties = {"bootstrap.servers": servers, "batch.num.messages": "1", "linger.ms": "0"}
        producer = Producer(transactional_properties(properties, unique_name("tx")))
        producer.init_transactions(30)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, on_delivery=tell)
        producer.commit_transaction(60)
    assert told == values
    reader = RangeReader({"bootstrap.servers": kafka}, topic, max_chunk_bytes=1 << 20, queue_bytes=1 << 20)
    try:
        assert [value for chunk in reader.read(OffsetRange(0, 0, 3)) for value in chunk.values] == values
    finally:
        reader.close()
