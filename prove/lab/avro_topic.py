"""A topic's events in JSON, each with its schema, brought to another topic in Avro."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, TopicPartition

from prove.lab.connect_avro import AvroConverter, registering
from prove.lab.debezium import ends
from prove.lab.kafka_server import KafkaBroker, Record
from servers.process import ServerFolder
from servers.registry import start_registry

_ANSWER_SECONDS = 30.0


@dataclass(slots=True)
class AvroTopic:
    """Brings what a topic holds to another one; ``registry`` has the schemas."""

    broker: KafkaBroker
    source: str
    topic: str
    registry: str
    _next: dict[int, int] = field(default_factory=dict)
    _converter: AvroConverter = field(init=False)

    def __post_init__(self) -> None:
        self._converter = AvroConverter(registering(self.registry))

    def bring(self) -> None:
        """Bring what came since the last time."""
        self.broker.produce(self.topic, list(self._came()))

    def _came(self) -> Iterator[Record]:
        reader = Consumer({"bootstrap.servers": self.broker, "group.id": "of-nobody"})
        for partition, end in ends(self.broker, self.source).items():
            start = self._next.get(partition, 0)
            reader.assign([TopicPartition(self.source, partition, start)])
            for _ in range(end - start):
                message = reader.poll(_ANSWER_SECONDS)
                assert message is not None
                assert message.error() is None, message.error()
                yield self._converter.record(self.topic, _record(message, partition))
            self._next[partition] = end
        reader.close()


def _record(message: Message, partition: int) -> Record:
    headers: Any = message.headers() or ()
    key = message.key()
    return Record(message.value(), key, partition, headers=headers)


@contextmanager
def in_avro(folder: Path, broker: KafkaBroker, source: str, topic: str) -> Iterator[AvroTopic]:
    """Start a registry, and stop it in the end."""
    registry = start_registry(ServerFolder(folder, "registry"))
    try:
        yield AvroTopic(broker, source, topic, registry.url)
    finally:
        registry.process.stop()
