"""The sample's topics on the embedded broker: create what is missing, see how far they are filled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from cli.sample_data import SAMPLE_TOPICS
from spark_jobs.core.errors import RetryableError

if TYPE_CHECKING:
    from collections.abc import Mapping

ADMIN_SECONDS = 20
RETENTION_BYTES = 512 << 20  # a partition: the stream may run for weeks on a laptop


def create_sample_topics(properties: Mapping[str, str]) -> None:
    """Create the sample's topics; those that exist stay as they are."""
    admin = AdminClient(dict(properties))
    config = {"retention.ms": "-1", "retention.bytes": str(RETENTION_BYTES)}
    wanted = [
        NewTopic(s.topic, num_partitions=s.partitions, replication_factor=1, config=config)
        for s in SAMPLE_TOPICS
    ]
    for topic, created in admin.create_topics(wanted, operation_timeout=ADMIN_SECONDS).items():
        try:
            created.result(timeout=ADMIN_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise _no_answer(topic, error) from error


def end_offsets(properties: Mapping[str, str], topic: str) -> dict[int, int]:
    """High watermark by partition."""
    consumer = Consumer({**properties, "group.id": "sluice-sample"})
    try:
        metadata = consumer.list_topics(topic, timeout=ADMIN_SECONDS)
        return {
            partition: consumer.get_watermark_offsets(
                TopicPartition(topic, partition), timeout=ADMIN_SECONDS
            )[1]
            for partition in sorted(metadata.topics[topic].partitions)
        }
    except KafkaException as error:
        raise _no_answer(topic, error) from error
    finally:
        consumer.close()


def _no_answer(topic: str, error: KafkaException) -> RetryableError:
    return RetryableError(
        f"the broker did not answer for the topic: {error.args[0].str()}",
        code="broker-away",
        hint="See the broker's log under the state folder's logs.",
        topic=topic,
    )
