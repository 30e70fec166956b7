"""A broker that refuses all that was not granted: what README asks for is enough, and what lacks is named."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AclOperation, AclPermissionType

from prove.lab.kafka_server import KafkaBroker, kafka_settings, unique_name
from prove.lab.pipeline_lab import Lab, configure, make_lab, orders
from servers.kafka import KafkaSettings, start_kafka
from servers.process import ServerFolder, free_ports
from spark_jobs.protocol.errors import ConfigError
from tests.support.rights import rule

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.kafka

READER = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "reader",
    "sasl.password": "secret",
}


@dataclass(frozen=True, slots=True)
class Guarded:
    """The broker by its open listener, where all is allowed, and by the one that knows who asks."""

    kafka: KafkaBroker
    bootstrap_servers: str

    def grant(self, topic: str, *operations: AclOperation) -> None:
        """Allow the reader these operations on the topic."""
        for operation in operations:
            rule(self.kafka, topic, operation, AclPermissionType.ALLOW, user="reader")

    def lab(self, folder: Path, topic: str, **settings: Any) -> Lab:
        """A pipeline over the topic that asks as the reader."""
        lab = make_lab(folder, bootstrap=self.bootstrap_servers, topic=topic, spark_remote=None, **settings)
        configure(lab, "kafka", READER)
        return lab


@pytest.fixture(scope="module")
def guarded(servers_folder: Path) -> Iterator[Guarded]:
    """A broker of which the reader may ask nothing yet."""
    settings = kafka_settings(ServerFolder(servers_folder, "kafka-of-rights"))
    (port,) = free_ports(1)
    server = start_kafka(replace(settings, properties=_with_rights(settings, port)))
    yield Guarded(KafkaBroker(server.bootstrap_servers), f"127.0.0.1:{port}")
    server.process.stop()


def _with_rights(settings: KafkaSettings, port: int) -> dict[str, str]:
    open_for_all = f"PLAINTEXT://127.0.0.1:{settings.port}"
    guarded = f"SASL_PLAINTEXT://127.0.0.1:{port}"
    protocols = ("PLAINTEXT", "SASL_PLAINTEXT")
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_reader="secret";'
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "listeners": f"{open_for_all},{guarded},CONTROLLER://127.0.0.1:{settings.controller_port}",
        "advertised.listeners": f"{open_for_all},{guarded}",
        "listener.security.protocol.map": ",".join(
            ["CONTROLLER:PLAINTEXT", *(f"{p}:{p}" for p in protocols)]
        ),
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": login,
    }


def test_read_and_describe_on_the_topic_are_enough(guarded: Guarded, tmp_path: Path) -> None:
    """To drain, audit and replay: no right on any group, on the cluster or on settings."""
    topic = guarded.kafka.new_topic(partitions=2)
    guarded.kafka.produce(topic, orders(0, 40))
    guarded.grant(topic, AclOperation.READ, AclOperation.DESCRIBE)
    lab = guarded.lab(tmp_path, topic)
    assert lab.drain().stopped == "caught-up"
    assert lab.rows().num_rows == 40
    found = lab.audit()
    assert found.is_clean, found


@pytest.mark.parametrize("granted", [(), (AclOperation.DESCRIBE,)])
def test_a_right_on_the_topic_that_lacks_is_named(
    guarded: Guarded, tmp_path: Path, granted: tuple[AclOperation, ...]
) -> None:
    """Nothing is made and nothing is tried again."""
    topic = guarded.kafka.new_topic()
    guarded.kafka.produce(topic, orders(0, 4))
    guarded.grant(topic, *granted)
    with pytest.raises(ConfigError) as raised:
        guarded.lab(tmp_path, topic).drain()
    assert raised.value.code == "not-authorised"


def test_a_topic_that_may_not_even_be_seen_is_not_told_from_none(guarded: Guarded, tmp_path: Path) -> None:
    """Kafka's own rule; a topic that is not there says the same."""
    with pytest.raises(ConfigError) as raised:
        guarded.lab(tmp_path, unique_name("none")).drain()
    assert raised.value.code == "not-authorised"
