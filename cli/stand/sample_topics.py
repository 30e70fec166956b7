"""The sample's topics on the embedded broker: create what is missing, see how far they are filled."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from cli.stand.sample_data import SAMPLE_TOPICS
from spark_jobs.kafka.admin import KafkaAdmin
from spark_jobs.kafka.client_properties import admin_properties, new_client
from spark_jobs.kafka.errors import ClientTroubles, translate

ADMIN_SECONDS = 20
RETENTION_BYTES = 512 << 20  # a partition: the stream may run for weeks on a laptop


def create_sample_topics(properties: Mapping[str, str]) -> None:
    """Create the sample's topics; those that exist stay as they are."""
    admin = new_client(AdminClient, admin_properties(properties), ClientTroubles())
    config = {"retention.ms": "-1", "retention.bytes": str(RETENTION_BYTES)}
    wanted = [
        NewTopic(s.topic, num_partitions=s.partitions, replication_factor=1, config=config)
        for s in SAMPLE_TOPICS
    ]
    asked = admin.create_topics(wanted, operation_timeout=ADMIN_SECONDS, request_timeout=ADMIN_SECONDS)
    for topic, created in asked.items():
        try:
            created.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise translate(error.args[0], "making the sample's topics", topic=topic) from error


def end_offsets(properties: Mapping[str, str], topic: str) -> dict[int, int]:
    """Return how many records each partition was given so far; the sample uses no transactions."""
    return KafkaAdmin(properties).source_state(topic).end
