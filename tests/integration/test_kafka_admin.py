"""Looking at topics: ends, identities, and one topic's trouble kept apart from the others'."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from prove.lab.kafka_server import KafkaBroker, Record, unique_name
from servers.process import free_ports
from spark_jobs.drain.planning import plan_ranges
from spark_jobs.kafka.admin import ALL_DOWN_SECONDS, KafkaAdmin
from spark_jobs.protocol.errors import ConfigError, RetryableError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.kafka


@pytest.fixture
def admin(kafka: KafkaBroker) -> Iterator[KafkaAdmin]:
    """The object under test."""
    client = KafkaAdmin({"bootstrap.servers": kafka})
    yield client
    client.close()


def test_a_look_shows_both_ends_and_who_the_source_is(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    """Right after its creation already: a leader that is just being made is waited for."""
    topic = kafka.new_topic(partitions=2)
    new = admin.source_state(topic)
    kafka.produce(topic, [Record(b"x", partition=1)] * 5)
    kafka.delete_records(topic, {1: 2})
    state = admin.source_state(topic)
    assert (new.low, new.end) == ({0: 0, 1: 0}, {0: 0, 1: 0})
    assert (state.low, state.end) == ({0: 0, 1: 2}, {0: 0, 1: 5})
    assert state.topic_id
    assert state.cluster_id
    assert (state.topic_id, state.cluster_id) == (new.topic_id, new.cluster_id)


def test_a_topic_created_again_has_another_id(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    """Its name and cluster are the same, its id is not."""
    topic = kafka.new_topic()
    before = admin.source_state(topic)
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    after = admin.source_state(topic)
    assert before.topic_id != after.topic_id
    assert before.cluster_id == after.cluster_id


def test_added_partitions_are_seen_and_begin_at_their_earliest(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    """A client that already knows the topic sees its new partitions."""
    topic = kafka.new_topic()
    kafka.produce(topic, [b"x"] * 3)
    admin.source_state(topic)
    other = AdminClient({"bootstrap.servers": kafka})
    other.create_partitions([NewPartitions(topic, 2)])[topic].result(10)
    while len((source := admin.source_state(topic)).end) < 2:
        time.sleep(0.05)
    ranges = plan_ranges({0: 3}, source, max_records=9, bytes_per_record=1, max_bytes=9)
    assert str(ranges) == "1:0-0"
    kafka.produce(topic, [Record(b"y", partition=1)])
    source = admin.source_state(topic)
    assert str(plan_ranges({0: 3}, source, max_records=9, bytes_per_record=1, max_bytes=9)) == "1:0-1"


def test_many_topics_are_one_quick_look_and_one_missing_is_its_own_error(
    kafka: KafkaBroker, admin: KafkaAdmin
) -> None:
    """Fifty pipelines cost two rounds of requests; a topic that does not exist fails alone."""
    topics = [kafka.new_topic() for _ in range(10)]
    admin.source_states(topics)
    missing = unique_name("missing")
    started = time.monotonic()
    states = admin.source_states([*topics, missing, topics[0], "not a name"])
    assert time.monotonic() - started < 5
    assert isinstance(states[missing], ConfigError)
    assert states[missing].code == states["not a name"].code == "no-such-topic"
    assert {states[t].topic for t in topics} == set(topics)
    assert admin.source_states([]) == {}
    with pytest.raises(ConfigError, match=missing):
        admin.source_state(missing)


def test_offsets_for_times_leaves_out_partitions_without_one(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    """The first record at or after the time, by partition."""
    topic = kafka.new_topic(partitions=2)
    kafka.produce(topic, [Record(b"x", partition=0, timestamp_ms=1000 * i) for i in (1, 2, 3)])
    assert admin.offsets_for_times(topic, 1500) == {0: 1}
    assert admin.offsets_for_times(topic, 9000) == {}


def test_topics_and_their_settings(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    """Kafka's own topics are not listed; settings include the broker's defaults."""
    topic = kafka.new_topic(retention_ms=123456)
    names = admin.topics()
    assert topic in names
    assert not any(name.startswith("__") for name in names)
    config = admin.topic_config(topic)
    assert (config["retention.ms"], config["cleanup.policy"]) == ("123456", "delete")
    with pytest.raises(ConfigError) as raised:
        admin.topic_config(unique_name("missing"))
    assert raised.value.code == "no-such-topic"


def test_group_offsets_are_published_for_lag_tools(kafka: KafkaBroker, admin: KafkaAdmin) -> None:
    """What is published is what Kafka then says of the group."""
    topic, group = kafka.new_topic(partitions=2), unique_name("group")
    kafka.produce(topic, [Record(b"x", partition=1)] * 4)
    admin.publish_group_offsets(group, topic, {0: 0, 1: 3})
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": group})
    committed = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=10)
    consumer.close()
    assert [p.offset for p in committed] == [0, 3]


def test_no_broker_is_said_soon_and_quietly(capfd: pytest.CaptureFixture[str]) -> None:
    """A refused connection is reported with its address, without waiting for the whole timeout."""
    (port,) = free_ports(1)
    admin = KafkaAdmin({"bootstrap.servers": f"127.0.0.1:{port}"})
    started = time.monotonic()
    with pytest.raises(RetryableError, match=str(port)) as raised:
        admin.source_states(["any"])
    assert time.monotonic() - started < ALL_DOWN_SECONDS + 2
    assert raised.value.code == "broker-away"
    # Clients of other tests may still be complaining of brokers of their own.
    assert str(port) not in capfd.readouterr().err


def test_credentials_a_broker_refuses_are_for_a_person_to_mend(kafka: KafkaBroker) -> None:
    """They are not retried until a timeout, and the password is nowhere in the error."""
    admin = KafkaAdmin(
        {
            "bootstrap.servers": kafka,
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "somebody",
            "sasl.password": "open-sesame",
        }
    )
    with pytest.raises(ConfigError) as raised:
        admin.source_state("any")
    assert raised.value.code == "authentication-failed"
    assert "open-sesame" not in str(raised.value)
