"""A producer whose records arrive in a topic each once, in order, and where they are to be, or end it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from spark_jobs.kafka.client_properties import new_client, producer_properties
from spark_jobs.kafka.errors import ClientTroubles, is_of_fenced, translate
from spark_jobs.protocol.errors import ConfigError, RetryableError, SluiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spark_jobs.export.archived import ArchivedRecord

WAIT_SECONDS = 60.0
_ROOM_SECONDS = 0.1
_UNHEARD = 500  # records between two looks at what became of those before: each costs as much as a record


class OrderedProducer:
    """Sends records one after the other; the first that is refused, or arrives elsewhere, ends it.

    ``ends`` is by partition where the topic ends, once all that was handed over has arrived. Another writer
    is seen by that: its records take offsets.
    """

    def __init__(self, properties: Mapping[str, str], topic: str, ends: Mapping[int, int]) -> None:
        self._topic = topic
        self.ends = dict(ends)
        self._arrived = dict(ends)
        self._failure: KafkaError | SluiceError | None = None
        self._producer = new_client(Producer, producer_properties(dict(properties)), ClientTroubles())

    def send(self, partition: int, record: ArchivedRecord) -> None:
        """Hand a record over, waiting for room; raises what an earlier one met."""
        at = self.ends[partition]
        if not at % _UNHEARD:
            self._raise_failure()
        hand_over(self._producer, self._topic, partition, record, self._told)
        self.ends[partition] = at + 1

    def finish(self) -> None:
        """Wait until all have arrived."""
        if waiting := self._producer.flush(WAIT_SECONDS):
            self._raise_failure()
            raise slow(f"{waiting:,} records have not arrived", self._topic)
        self._raise_failure()

    def go_on_at(self, partition: int, offset: int) -> None:
        """Expect the next record there: all have arrived, and what lies before it was filled."""
        self.ends[partition] = self._arrived[partition] = offset

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failure = self._failure or error
            return
        partition, offset = cast("int", message.partition()), message.offset()
        # A broker that is asked twice may not say where it was.
        if offset is not None and offset != self._arrived[partition]:
            self._failure = self._failure or disturbed(self._topic, f"{partition}:{self._arrived[partition]}")
        self._arrived[partition] += 1

    def _raise_failure(self) -> None:
        self._producer.poll(0)
        if self._failure is None:
            return
        self._producer.purge()
        if isinstance(self._failure, SluiceError):
            raise self._failure
        raise translate(self._failure, "producing a record", topic=self._topic)


def hand_over(
    producer: Producer,
    topic: str,
    partition: int,
    record: ArchivedRecord,
    told: Callable[[KafkaError | None, Message], None],
) -> None:
    """Give a client a record, waiting for room in its queue."""
    while True:
        try:
            producer.produce(
                topic,
                record.value,
                record.key,
                partition,
                on_delivery=told,
                timestamp=record.timestamp_ms,
                headers=record.headers or None,
            )
        except BufferError:
            producer.poll(_ROOM_SECONDS)
        except KafkaException as error:
            raise failed(error, topic) from error
        else:
            return


def failed(error: KafkaException, topic: str) -> SluiceError:
    """Return what to say of a client that cannot go on."""
    told: KafkaError = error.args[0]
    return disturbed(topic) if is_of_fenced(told) else translate(told, "producing", topic=topic)


def slow(message: str, topic: str) -> RetryableError:
    """Return what to say when the broker takes its time."""
    return RetryableError(
        f"the broker takes longer than {WAIT_SECONDS:.0f} s: {message}",
        code="export-slow",
        hint="Run it again when the broker answers: it goes on behind the last record that did.",
        topic=topic,
    )


def disturbed(topic: str, where: str = "") -> ConfigError:
    """Return what to say when somebody else writes to the target."""
    return ConfigError(
        f"somebody else writes to the topic {topic}, another export perhaps{where and f': at {where}'}",
        code="export-disturbed",
        hint="Stop that, and run it again: if the topic is no more what the archive has, it says so.",
        topic=topic,
    )
