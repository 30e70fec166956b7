"""Reader that follows a topic's partitions from given offsets, or ends with a named error."""

# ruff: noqa: SLF001  (librdkafka's own codes, as against the broker's, begin with an underscore)

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import lt

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from spark_jobs.kafka.chunks import Chunk, by_partition, chunk_of, joined, offset_of
from spark_jobs.kafka.client_properties import close_consumer, consumer_properties, new_client
from spark_jobs.kafka.errors import ClientTroubles, is_of_group, is_settling, translate
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.offsets import OffsetRange

MAX_RECORDS = 10_000
MAX_QUEUE_BYTES = 64 << 20
_ANSWER_SECONDS = 10.0
_SILENCE_SECONDS = 10.0
# A fetch returns with its first byte: waiting longer costs no freshness, and an idle follower less.
_FOLLOWING = {"fetch.wait.max.ms": "500"}


@dataclass(slots=True)
class Taken:
    """Records of one call, in chunks; everything readable below ``ends`` has been returned.

    Of a partition with an end Kafka had no more than that at ``asked_at``, or later (``time.monotonic``).
    """

    chunks: list[Chunk] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    asked_at: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.chunks or self.ends)

    @property
    def partitions(self) -> set[int]:
        """Return the partitions with records."""
        return self.ends.keys() | {partition for chunk in self.chunks for partition in chunk.counts}

    def before(self, stops: Mapping[int, OffsetRange]) -> Taken:
        """Return the records before these offsets, by partition."""
        if not stops:
            return self
        chunks = (_before(chunk, stops) for chunk in self.chunks)
        ends = {partition: end for partition, end in self.ends.items() if partition not in stops}
        return Taken([chunk for chunk in chunks if chunk.offsets], ends, self.asked_at)


def _before(chunk: Chunk, stops: Mapping[int, OffsetRange]) -> Chunk:
    places = enumerate(zip(chunk.partitions.tolist(), chunk.offsets, strict=True))
    return chunk.take([i for i, (p, offset) in places if p not in stops or offset < stops[p].start])


@contextmanager
def open_tail(
    properties: Mapping[str, str], topic: str, positions: Mapping[int, int]
) -> Iterator[TailReader]:
    """Yield a reader of each partition from its offset. Raises ``ConfigError``."""
    reader = TailReader(properties, topic)
    try:
        reader.follow(positions)
        yield reader
    finally:
        reader.close()


class TailReader:
    """Consumer of partitions of one topic, without a group. Not thread-safe."""

    def __init__(self, properties: Mapping[str, str], topic: str) -> None:
        """Create the consumer without connecting. Raises ``ConfigError`` for wrong properties."""
        self._topic = topic
        self._servers = properties.get("bootstrap.servers") or properties.get("metadata.broker.list")
        self._troubles = ClientTroubles()
        self._positions: dict[int, int] = {}
        self._is_paused = False
        self._heard_at = self._emptied_at = time.monotonic()
        completed = consumer_properties(properties, queue_bytes=MAX_QUEUE_BYTES) | _FOLLOWING
        self._consumer = new_client(Consumer, completed, self._troubles)

    def follow(self, positions: Mapping[int, int]) -> None:
        """Read more partitions, each from its offset."""
        new = [TopicPartition(self._topic, p, at) for p, at in positions.items() if p not in self._positions]
        self._positions = {**positions, **self._positions}
        self._consumer.incremental_assign(new)
        if self._is_paused:
            self._consumer.pause(new)

    def leave(self, partitions: Collection[int]) -> None:
        """Stop reading these partitions until they are followed again."""
        for partition in partitions:
            del self._positions[partition]
        self._consumer.incremental_unassign([TopicPartition(self._topic, p) for p in partitions])

    def take(self, timeout_seconds: float) -> Taken:
        """Return waiting records, or the first that arrive within the time.

        Raises ``OffsetsUnavailable`` (``retention-passed``, ``log-truncated``), ``ConfigError`` and
        ``RetryableError``. Records that were taken before are still good, but for ``log-truncated``.
        """
        began, asked_at = time.monotonic(), self._emptied_at
        if not (messages := self._consumer.consume(MAX_RECORDS, 0)):
            messages, asked_at = self._consumer.consume(1, timeout_seconds), began
        if len(messages) < MAX_RECORDS:  # what waits from now on came later
            self._emptied_at = began
        if not messages:
            self._check_silence()
            return Taken()
        taken = Taken(asked_at=asked_at)
        chunks = []
        for partition, own in by_partition(messages).items():
            if partition not in self._positions:  # it was left meanwhile
                continue
            records = [message for message in own if message.error() is None]
            if records:
                chunks.append(self._chunk(partition, records))
            for message in own:
                if (error := message.error()) is not None:
                    self._heed(error, message, taken)
        taken.chunks.extend(joined(chunks, MAX_RECORDS))
        if taken:
            self._heard_at = time.monotonic()
            self._troubles.forget()
        return taken

    def pause(self, *, is_paused: bool) -> None:
        """Pause or resume fetching; records already fetched are still returned."""
        if is_paused is not self._is_paused:
            self._is_paused = is_paused
            every = [TopicPartition(self._topic, partition) for partition in self._positions]
            (self._consumer.pause if is_paused else self._consumer.resume)(every)

    def close(self) -> None:
        """Drop the connections, or leave a client that does not close."""
        close_consumer(self._consumer, self._topic)

    def _chunk(self, partition: int, records: list[Message]) -> Chunk:
        offsets = list(map(offset_of, records))
        position = self._positions[partition]
        if offsets[0] < position or not all(map(lt, offsets, offsets[1:])):
            raise self._lost(partition)
        self._positions[partition] = offsets[-1] + 1
        return chunk_of(partition, records, offsets)

    def _heed(self, error: KafkaError, message: Message, taken: Taken) -> None:
        """Process an event: an end of partition or an error."""
        partition = message.partition()
        if error.code() == KafkaError._PARTITION_EOF and partition is not None:
            taken.ends[partition] = offset_of(message)
        elif (
            error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION}
            and partition is not None
        ):
            raise self._lost(partition)
        elif not (is_of_group(error) or is_settling(error)):
            raise self._translated(error)

    def _lost(self, partition: int) -> SluiceError:
        try:
            low, high = self._consumer.get_watermark_offsets(
                TopicPartition(self._topic, partition), timeout=_ANSWER_SECONDS
            )
        except KafkaException as error:
            return self._translated(error.args[0])
        position = self._positions[partition]
        where = {"topic": self._topic, "partition": partition}
        if position < low:
            return fault("retention-passed.followed", position=position, last=low - 1, **where)
        return fault("log-truncated.followed", position=position, high=high, **where)

    def _check_silence(self) -> None:
        """Raise the client's permanent error, if any; silence itself is normal."""
        failure = self._troubles.refused or self._troubles.of_topic
        if failure is None and time.monotonic() - self._heard_at > _SILENCE_SECONDS:
            down = KafkaError(KafkaError._ALL_BROKERS_DOWN) if self._troubles.are_all_down else None
            failure = self._troubles.unreachable or down
        if failure is not None:
            raise self._translated(failure)

    def _translated(self, error: KafkaError) -> SluiceError:
        return translate(error, "following a topic", right="Read", topic=self._topic, servers=self._servers)
