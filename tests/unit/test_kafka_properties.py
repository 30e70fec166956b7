"""Kafka properties: what may be set, what is told instead, what Sluice's clients get in the end."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaException

from spark_jobs.config.sections import FIXED_PROPERTIES, KAFKA_PROPERTY_NAMES, validate_kafka_properties
from spark_jobs.kafka.client_properties import admin_properties, consumer_properties, new_client
from spark_jobs.kafka.errors import ClientTroubles
from spark_jobs.protocol.errors import ConfigError

MIB = 1024 * 1024


@pytest.mark.parametrize("name", sorted(FIXED_PROPERTIES))
def test_what_keeps_records_whole_cannot_be_overridden(name: str) -> None:
    """Another value is refused by name; the same value is accepted."""
    (finding,) = validate_kafka_properties({name: "something else"})
    assert finding.path == (name,)
    assert validate_kafka_properties({name: FIXED_PROPERTIES[name]}) == []
    with pytest.raises(ConfigError, match=name):
        consumer_properties({name: "something else"}, queue_bytes=MIB)


def test_a_group_is_refused_for_what_it_is() -> None:
    """A group's name loses and doubles nothing: the refusal says that no group is joined."""
    (finding,) = validate_kafka_properties({"group.id": "orders"})
    assert "does not join a consumer group" in str(finding)


def test_an_alias_is_no_way_around() -> None:
    """A fixed property's other name is refused as well."""
    assert [f.path for f in validate_kafka_properties({"auto.commit.enable": "true"})] == [
        ("auto.commit.enable",)
    ]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("max.poll.records", "max_batch_records"),
        ("value.deserializer", "decodes"),
        ("ssl.truststore.location", "ssl.ca.location"),
        ("sasl.jaas.config", "sasl.username"),
        ("fetch.max.wait.ms", "fetch.wait.max.ms"),
        ("queued.min.mesages", "queued.min.messages"),
        ("bootstrap_servers", "bootstrap.servers"),
    ],
)
def test_a_wrong_name_is_told_the_right_one(name: str, told: str) -> None:
    """Java's names and misspelt ones come with what to write instead."""
    (finding,) = validate_kafka_properties({name: "secret-value"})
    assert told in finding.hint
    assert "secret-value" not in str(finding)


def test_two_names_of_one_property_must_agree() -> None:
    """Which of two values would win is not left to the order they stand in."""
    (finding,) = validate_kafka_properties({"sasl.mechanism": "PLAIN", "sasl.mechanisms": "GSSAPI"})
    assert finding.path == ("sasl.mechanism",)


def test_every_listed_name_is_one_the_installed_library_takes() -> None:
    """The list of names is that of the librdkafka in use: it refuses none of them."""
    for name in KAFKA_PROPERTY_NAMES:
        with pytest.raises(KafkaException) as raised:
            Consumer({"group.id": "g", name: "", "sluice.unknown": ""})
        refusal = raised.value.args[0].str()
        assert not ("No such" in refusal and f'"{name}"' in refusal)


def test_the_queue_never_exceeds_its_budget() -> None:
    """A user may ask for a smaller queue or a larger one, within the task's memory."""

    def queue_kib(queue_bytes: int, **wish: str) -> int:
        properties = {"queued.max.messages.kbytes": wish["kib"]} if wish else {}
        return int(consumer_properties(properties, queue_bytes=queue_bytes)["queued.max.messages.kbytes"])

    assert queue_kib(4 * MIB) == 4096
    assert queue_kib(512 * MIB) == 16384
    assert queue_kib(512 * MIB, kib="65536") == 65536
    assert queue_kib(4 * MIB, kib="65536") == 4096


def test_a_small_budget_makes_small_fetches() -> None:
    """A fetch is unpacked whole: compressed 16 to 1, it still fits the budget."""

    def fetch_bytes(queue_bytes: int) -> int:
        return int(consumer_properties({}, queue_bytes=queue_bytes)["fetch.message.max.bytes"])

    assert fetch_bytes(4 * MIB) == MIB // 4
    assert fetch_bytes(128 * MIB) == MIB


def test_a_users_setting_wins_over_a_fast_default() -> None:
    """Also under its other name."""
    properties = consumer_properties({"max.partition.fetch.bytes": "123456"}, queue_bytes=MIB)
    assert properties["fetch.message.max.bytes"] == "123456"
    assert "max.partition.fetch.bytes" not in properties


def test_a_value_librdkafka_refuses_is_a_configuration_error() -> None:
    """The message names the property."""
    properties = consumer_properties({"queued.min.messages": "many"}, queue_bytes=MIB)
    with pytest.raises(ConfigError, match=r"queued\.min\.messages") as raised:
        new_client(Consumer, properties, ClientTroubles())
    assert raised.value.code == "kafka-property-refused"


def test_the_admin_client_takes_the_same_properties() -> None:
    """One section of the configuration serves both clients."""
    assert admin_properties({"bootstrap.servers": "a:1"})["bootstrap.servers"] == "a:1"
    with pytest.raises(ConfigError, match="nonsense"):
        admin_properties({"nonsense": "1"})
