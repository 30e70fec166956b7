"""A producer whose records arrive in a topic each once, in order, and where they are to be, or end it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from spark_jobs.kafka.client_properties import new_client, producer_properties
from spark_jobs.kafka.errors import ClientTroubles, is_of_fenced, translate
from spark_jobs.protocol.errors import ConfigError, RetryableError, SluiceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spark_jobs.kafka.chunks import Chunk

WAIT_SECONDS = 60.0
_ROOM_SECONDS = 0.1


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

    def send(self, chunk: Chunk) -> None:
        """Hand records over, one behind the other whatever their offsets; raises what earlier ones met."""
        self._raise_failure()
        hand_over(self._producer, self._topic, chunk, self._told)
        self.ends[chunk.partition] += len(chunk.offsets)

    def finish(self) -> None:
        """Wait until all have arrived, as long as some do: an uplink may be slow."""
        waiting = len(self._producer)
        while left := self._producer.flush(WAIT_SECONDS):
            self._raise_failure()
            if left >= waiting:
                raise slow(f"{left:,} records have not arrived", self._topic)
            waiting = left
        self._raise_failure()

    def go_on_at(self, partition: int, offset: int) -> None:
        """Expect the next record there: all have arrived, and what lies before it was filled."""
        self.ends[partition] = self._arrived[partition] = offset

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failure = self._failure or error
            return
        partition: int = message.partition()  # type: ignore[assignment]
        offset, expected = message.offset(), self._arrived[partition]
        # A broker that is asked twice may not say where it was.
        if offset != expected and offset is not None:
            self._failure = self._failure or disturbed(self._topic, f"{partition}:{expected}")
        self._arrived[partition] = expected + 1

    def _raise_failure(self) -> None:
        self._producer.poll(0)
        if self._failure is None:
            return
        self._producer.purge()
        if isinstance(self._failure, SluiceError):
            raise self._failure
        raise translate(self._failure, "producing a record", right="Write", topic=self._topic)


def hand_over(
    producer: Producer,
    topic: str,
    chunk: Chunk,
    told: Callable[[KafkaError | None, Message], None],
) -> None:
    """Give a client records in their order, waiting for room in its queue."""
    produce, partition = producer.produce, chunk.partition
    columns = (chunk.values, chunk.keys, chunk.timestamps_ms, chunk.headers)
    for value, key, timestamp_ms, headers in zip(*columns, strict=True):
        while True:
            try:
                # A list of pairs of text and bytes is one of text and text or bytes.
                produce(topic, value, key, partition, told, None, timestamp_ms, headers)  # type: ignore[arg-type]
                break
            except BufferError:
                producer.poll(_ROOM_SECONDS)
            except KafkaException as error:
                raise failed(error, topic) from error


def failed(error: KafkaException, topic: str) -> SluiceError:
    """Return what to say of a client that cannot go on."""
    told: KafkaError = error.args[0]
    return (
        disturbed(topic) if is_of_fenced(told) else translate(told, "producing", right="Write", topic=topic)
    )


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
