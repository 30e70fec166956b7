"""The test run's Kafka broker, and direct operations on it."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Self

from confluent_kafka import KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from servers.kafka import KafkaServer, KafkaSettings, start_kafka
from servers.process import ServerFolder, free_ports

_TIMEOUT_SECONDS = 60.0
_ATTEMPT_SECONDS = 20.0
_PASSING = (KafkaError._TIMED_OUT, KafkaError.INVALID_REPLICA_ASSIGNMENT)  # noqa: SLF001


@dataclass(frozen=True, slots=True)
class Record:
    """A record to produce; Kafka's defaults apply to missing parts."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


class KafkaBroker(str):
    """A broker's bootstrap servers, with operations that prepare topics.

    With ``lasts`` nobody kills it or cuts its log: one producer does for all that a process produces.
    """

    __slots__ = ("_admin", "_lasts", "_producer", "_producing_pid")
    _admin: AdminClient
    _lasts: bool
    _producer: Producer | None
    _producing_pid: int

    def __new__(cls, bootstrap_servers: str, *, lasts: bool = False) -> Self:
        broker = super().__new__(cls, bootstrap_servers)
        broker._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        broker._lasts, broker._producer, broker._producing_pid = lasts, None, 0
        return broker

    def create_topic(
        self, name: str, partitions: int = 1, *, nodes: Sequence[int] = (1,), **config: object
    ) -> str:
        """Create a topic and wait for it; ``retention_ms=1`` sets ``retention.ms``.

        The first node leads all partitions.
        """
        properties = {key.replace("_", "."): str(value) for key, value in config.items()}
        topic = NewTopic(
            name, num_partitions=partitions, replica_assignment=[list(nodes)] * partitions, config=properties
        )
        self._create(topic)
        # The controller answers before a busy broker has caught up with what it decided.
        while self._admin.list_topics(name, timeout=_TIMEOUT_SECONDS).topics[name].error is not None:
            time.sleep(0.02)
        return name

    def _create(self, topic: NewTopic) -> None:
        # A broker is fenced for some heartbeats when its machine stood still for longer than its session. And
        # rarely librdkafka looks for the controller until its time is over, beside a broker that answers all.
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        for attempt in count():
            asked = self._admin.create_topics(
                [topic], operation_timeout=_ATTEMPT_SECONDS, request_timeout=_ATTEMPT_SECONDS
            )
            error = asked[topic.topic].exception()
            code = error and error.args[0].code()
            if error is None or (attempt and code == KafkaError.TOPIC_ALREADY_EXISTS):
                return
            if code not in _PASSING or time.monotonic() > deadline:
                raise error
            time.sleep(0.5)
            self._admin = AdminClient({"bootstrap.servers": self, "log_level": 0})

    def new_topic(self, partitions: int = 1, *, nodes: Sequence[int] = (1,), **config: object) -> str:
        """Create a topic with a unique name."""
        return self.create_topic(unique_name("topic"), partitions, nodes=nodes, **config)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait for the broker."""
        self._producer = None  # who produced to it takes the next one of this name for the same
        self._admin.delete_topics([name], operation_timeout=_TIMEOUT_SECONDS)[name].result(_TIMEOUT_SECONDS)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete each partition's records below an offset, as retention would."""
        partitions = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        # A new one: it may know less than all partitions.
        client = AdminClient({"bootstrap.servers": self, "log_level": 0})
        for outcome in client.delete_records(partitions).values():
            outcome.result(_TIMEOUT_SECONDS)

    def produce(self, topic: str, records: Iterable[Record | bytes | None], **properties: object) -> None:
        """Produce records (or bare values) in order, each once, and wait for acknowledgement."""
        failures: list[str] = []
        is_kept = self._lasts and not properties
        producer = self._kept_producer(topic) if is_kept else self._new_producer(**properties)
        for record in records:
            _produce_one(producer, topic, record if isinstance(record, Record) else Record(record), failures)
        left = producer.flush(_TIMEOUT_SECONDS)
        assert not left, f"{left} records were not acknowledged"
        assert not failures, failures[0]

    def _kept_producer(self, topic: str) -> Producer:
        """Return this process's producer: a new one waits half a second for its id."""
        if self._producer is None or self._producing_pid != os.getpid():
            self._producer, self._producing_pid = self._new_producer(), os.getpid()
        self._producer.list_topics(topic, timeout=_TIMEOUT_SECONDS)  # it may have more partitions by now
        return self._producer

    def _new_producer(self, **properties: object) -> Producer:
        # With two requests under way, one that a new topic's leader refuses may be lost: client_properties.
        once = {"bootstrap.servers": self, "linger.ms": 5, "enable.idempotence": True, "max.in.flight": 1}
        # Records without a partition go to any, each by itself.
        once |= {"log_level": 0, "sticky.partitioning.linger.ms": 0}
        return Producer({**once, **properties})


def unique_name(kind: str) -> str:
    """Return a unique name for a topic, namespace or bucket."""
    return f"{kind}-{uuid.uuid4().hex[:12]}"


def kafka_settings(folder: ServerFolder, **properties: str) -> KafkaSettings:
    """Return a small broker's settings, also for restarts of killed brokers."""
    return KafkaSettings(folder, *free_ports(2), heap="512m", properties=properties)


def start_test_kafka(folder: ServerFolder) -> KafkaServer:
    """Start the test run's broker, which no test kills: its session outlasts a suspended machine.

    It looks often for what is to be compacted.
    """
    properties = {"broker.session.timeout.ms": "60000", "log.cleaner.backoff.ms": "500"}
    return start_kafka(kafka_settings(folder, **properties))


def _produce_one(producer: Producer, topic: str, record: Record, failures: list[str]) -> None:
    optional = {"partition": record.partition, "timestamp": record.timestamp_ms}
    given: dict[str, Any] = {name: value for name, value in optional.items() if value is not None}
    while True:
        try:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                on_delivery=lambda error, _message: failures.append(str(error)) if error else None,
                **given,
            )
        except BufferError:
            producer.poll(0.5)
        else:
            producer.poll(0)
            return
