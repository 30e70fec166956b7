"""Reader of offset ranges: each is read to its end, or ends with a named error."""

# ruff: noqa: SLF001  (librdkafka's own codes, as against the broker's, begin with an underscore)

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from operator import lt

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from spark_jobs.kafka.chunks import (
    MAX_SLICE_RECORDS,
    Chunk,
    ChunkBuilder,
    Cursor,
    by_partition,
    chunk_of,
    joined,
    log_truncated,
    offset_of,
    retention_passed,
)
from spark_jobs.kafka.client_properties import close_consumer, consumer_properties, new_client
from spark_jobs.kafka.errors import (
    INTERVAL_MS,
    ClientStatistics,
    ClientTroubles,
    is_damage,
    is_no_topic,
    is_of_group,
    is_settling,
    translate,
)
from spark_jobs.protocol.errors import OffsetsUnavailable, RetryableError, SluiceError, fault
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import SourceState, has_new_leader

__all__ = ["Chunk", "RangeReader", "bundles", "open_reader"]


# Calls of decoders and Arrow cost a chunk what 1,000 records do; larger ones take more memory for little.
MAX_CHUNK_RECORDS = 10_000
MAX_RECORDS_TOGETHER = 2 * MAX_CHUNK_RECORDS
OPEN_READER_CHUNK_BYTES = 16 * 1024 * 1024
READ_TIMEOUT_SECONDS = 60.0
_ANSWER_TIMEOUT_SECONDS = 10.0
_WAIT_SECONDS = 0.2
_NO_EPOCH = -1  # librdkafka's own
_NO_PARTITION = -1  # of an event that concerns the whole client


@contextmanager
def open_reader(
    kafka: Mapping[str, str], topic: str, *, chunk_bytes: int = OPEN_READER_CHUNK_BYTES
) -> Iterator[RangeReader]:
    """Yield a reader whose queue holds four chunks. Raises ``ConfigError``."""
    reader = RangeReader(kafka, topic, max_chunk_bytes=chunk_bytes, queue_bytes=4 * chunk_bytes)
    try:
        yield reader
    finally:
        reader.close()


class RangeReader:
    """Consumer that reads ranges of one topic in sequence. Not thread-safe.

    Memory: what waits in librdkafka's queue (``queue_bytes`` and a fetch), the same once more when large
    messages follow small ones and one call takes the whole queue, and a chunk.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        topic: str,
        *,
        max_chunk_bytes: int,
        queue_bytes: int,
        max_chunk_records: int = MAX_CHUNK_RECORDS,
        read_timeout_seconds: float = READ_TIMEOUT_SECONDS,
    ) -> None:
        """Create the consumer without connecting. Raises ``ConfigError`` for wrong properties."""
        self._topic = topic
        self._max_chunk_records = max_chunk_records
        self._max_chunk_bytes = max_chunk_bytes
        self._read_timeout_seconds = read_timeout_seconds
        self._answer_timeout_seconds = min(_ANSWER_TIMEOUT_SECONDS, read_timeout_seconds)
        self._troubles = ClientTroubles()
        self._statistics = ClientStatistics()
        self._servers = properties.get("bootstrap.servers") or properties.get("metadata.broker.list")
        completed = consumer_properties(properties, queue_bytes=queue_bytes)
        completed = {"statistics.interval.ms": INTERVAL_MS, **completed}
        self._consumer = new_client(Consumer, completed, self._troubles, self._statistics)

    def read(self, wanted: OffsetRange, *, leader_epoch: int | None = None) -> Iterator[Chunk]:
        """Return the range's readable records in offset order, in chunks.

        Offsets between them hold none: control markers, aborted transactions, what compaction removed.
        Only an iterator that ends by itself has read the whole range; beginning the next range ends this
        one. A reader's first range may have the ``leader_epoch`` of what lies below it: Kafka is asked
        whether it still has that, and nothing is read otherwise (KIP-320). Raises ``OffsetsUnavailable``
        (retention-passed, log-truncated), ``SourceChanged`` (topic-gone), ``ConfigError`` and
        ``RetryableError``.
        """
        if not wanted:
            return
        epoch = _NO_EPOCH if leader_epoch is None else leader_epoch
        self._consumer.assign(
            [TopicPartition(self._topic, wanted.partition, wanted.start, leader_epoch=epoch)]
        )
        cursor = Cursor(wanted, self._read_timeout_seconds, time.monotonic, leader_epoch)
        builder = ChunkBuilder(
            wanted.partition, max_records=self._max_chunk_records, max_bytes=self._max_chunk_bytes
        )
        while not cursor.is_done:
            records, offsets = self._next_records(builder.room, cursor)
            if records:
                yield from builder.add(records, offsets)
        # The fetcher reads on past the end for as long as the partition is assigned.
        self._consumer.unassign()
        self._check_start(cursor)
        yield from builder.finish()

    def read_together(self, ranges: Sequence[OffsetRange]) -> Iterator[Chunk]:
        """Return the records of ranges in their order, of several (see ``bundles``) at one go.

        These are held until all are here: should they be more than a chunk may hold, each range is read by
        itself. Otherwise as ``read``.
        """
        gathered = self._gather(ranges) if len(ranges) > 1 else None
        if gathered is not None:
            yield from joined(gathered, self._max_chunk_records)
            return
        for each in ranges:
            yield from self.read(each)

    @property
    def statistics(self) -> dict[str, int]:
        """Return the consumer's latest statistics."""
        return self._statistics.latest

    def close(self) -> None:
        """Drop the connections, or leave a client that does not close."""
        close_consumer(self._consumer, self._topic)

    def _gather(self, ranges: Sequence[OffsetRange]) -> list[Chunk] | None:
        """Return a chunk for each range with records; None if they are too large."""
        self._consumer.assign([TopicPartition(self._topic, each.partition, each.start) for each in ranges])
        cursors = {
            each.partition: Cursor(each, self._read_timeout_seconds, time.monotonic) for each in ranges
        }
        chunks = {each.partition: Chunk(each.partition) for each in ranges}
        while waiting := [cursor for cursor in cursors.values() if not cursor.is_done]:
            messages = self._consumer.consume(MAX_SLICE_RECORDS, 0) or self._consumer.consume(
                1, _WAIT_SECONDS
            )
            if not messages:
                self._check_silence(min(waiting, key=lambda cursor: cursor.deadline))
            for partition, own in by_partition(messages).items():
                # What concerns the whole client concerns any of them.
                cursor = cursors.get(partition, waiting[0])
                records, offsets = self._of_range(own, cursor)
                if records:
                    chunks[cursor.wanted.partition].extend(
                        chunk_of(cursor.wanted.partition, records, offsets)
                    )
            if sum(chunk.record_bytes for chunk in chunks.values()) > self._max_chunk_bytes:
                self._consumer.unassign()
                return None
        self._consumer.unassign()
        for cursor in cursors.values():
            self._check_start(cursor)
        return [chunk for chunk in chunks.values() if chunk.offsets]

    def _next_records(self, room: int, cursor: Cursor) -> tuple[list[Message], list[int]]:
        """Return at most ``room`` waiting records, or wait briefly for one; advance the cursor."""
        messages = self._consumer.consume(room, 0) or self._consumer.consume(1, _WAIT_SECONDS)
        if not messages:
            self._check_silence(cursor)
            return [], []
        return self._of_range(messages, cursor)

    def _of_range(self, messages: list[Message], cursor: Cursor) -> tuple[list[Message], list[int]]:
        """Return the range's records with their offsets and advance the cursor."""
        records = self._without_events(messages, cursor)
        offsets = list(map(offset_of, records))
        if offsets:
            self._troubles.forget()
            if offsets[0] < cursor.position or not all(map(lt, offsets, offsets[1:])):
                raise fault(
                    "offsets-out-of-order",
                    first=offsets[0],
                    last=offsets[-1],
                    before=cursor.position - 1,
                    topic=self._topic,
                    range=cursor.wanted,
                )
            kept = cursor.advance(offsets)
            del records[kept:], offsets[kept:]
        return records, offsets

    def _without_events(self, messages: list[Message], cursor: Cursor) -> list[Message]:
        partition = cursor.wanted.partition
        if not any(map(Message.error, messages)) and set(map(Message.partition, messages)) == {partition}:
            return messages
        records = []
        for message in messages:
            if message.partition() not in {partition, _NO_PARTITION}:
                continue  # left over from the range before
            error = message.error()
            if error is None:
                records.append(message)
            elif _is_end(error, message, cursor):
                cursor.saw_log_end(offset_of(message))
                if cursor.is_done:
                    break  # behind damage librdkafka reads on at a wrong place: offsets without sense
            elif not (is_of_group(error) or _is_beyond(error, message, cursor)):
                offset: int | None = message.offset()
                at = cursor.position if offset is None else offset
                raise self._failure(error, cursor, at, right="Read")
        return records

    def _check_silence(self, cursor: Cursor) -> None:
        """Raise the client's permanent error, or an error if the silence lasts too long."""
        refused = self._troubles.refused or self._troubles.of_topic
        if refused is not None:
            raise self._failure(refused, cursor, cursor.position)
        if cursor.is_newly_quiet():
            with suppress(KafkaException):  # no answer: judged when the read is overdue
                self._check_topic(cursor, timeout_seconds=1.0)
        if not cursor.is_overdue:
            return
        away = self._troubles.unreachable or (
            KafkaError(KafkaError._ALL_BROKERS_DOWN) if self._troubles.are_all_down else None
        )
        if away is not None:
            raise self._failure(away, cursor, cursor.position)
        try:
            self._check_topic(cursor, timeout_seconds=self._answer_timeout_seconds)
        except KafkaException as error:
            raise self._failure(error.args[0], cursor, cursor.position) from error
        low, high = self._watermarks(cursor.wanted.partition)
        if cursor.position < low:
            raise retention_passed(self._topic, cursor, cursor.position, low)
        if cursor.log_end is not None or high < cursor.wanted.end:
            raise log_truncated(self._topic, cursor, high if cursor.log_end is None else cursor.log_end)
        raise fault("read-stalled", position=cursor.position, topic=self._topic, range=cursor.wanted)

    def _check_topic(self, cursor: Cursor, *, timeout_seconds: float) -> None:
        """Raise if the topic is not visible: a consumer without that right stays silent."""
        topics = self._consumer.list_topics(self._topic, timeout=timeout_seconds).topics
        error = topics[self._topic].error
        if error is not None and not is_settling(error):
            raise self._failure(error, cursor, cursor.position)

    def _check_start(self, cursor: Cursor) -> None:
        """Raise if records before the first one may have been lost.

        Kafka checks every fetch against the first offset it holds, so a start that retention passed is an
        error at once and a first record above the start means markers or compaction. This is the second
        look: when Kafka's first offset is above the start by now, the two can no longer be told apart. It
        asks only after such a gap, so a range that began at its start is done whatever retention does next.
        """
        start = cursor.wanted.start
        if cursor.first != start and (low := self._watermarks(cursor.wanted.partition)[0]) > start:
            raise retention_passed(self._topic, cursor, start, low)

    def _watermarks(self, partition: int) -> tuple[int, int]:
        where = TopicPartition(self._topic, partition)
        try:
            low, high = self._consumer.get_watermark_offsets(where, timeout=self._answer_timeout_seconds)
        except KafkaException as error:
            raise self._translated(error.args[0], partition=partition) from error
        return low, high

    def _failure(
        self, error: KafkaError, cursor: Cursor, offset: int, *, right: str = "Describe"
    ) -> SluiceError:
        if error.code() not in {KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION}:
            return self._translated(error, right=right, range=cursor.wanted)
        low, high = self._watermarks(cursor.wanted.partition)
        if offset < low:
            return retention_passed(self._topic, cursor, offset, low)
        if offset > high or error.code() == KafkaError._LOG_TRUNCATION:
            return log_truncated(self._topic, cursor, high)
        if cursor.leader_epoch is not None and offset == cursor.wanted.start:
            # It lies in the log: only what is below it can be objected to.
            return fault(
                "log-truncated.epoch", start=cursor.wanted.start, topic=self._topic, range=cursor.wanted
            )
        return fault("read-stalled", position=cursor.position, topic=self._topic, range=cursor.wanted)

    def _translated(self, error: KafkaError, *, right: str = "Describe", **where: object) -> SluiceError:
        if not is_no_topic(error):
            at = {"topic": self._topic, "servers": self._servers, **where}
            return translate(error, "reading", right=right, **at)
        return fault("topic-gone", name=self._topic, why=error.str(), **where)


def bundles(ranges: Iterable[OffsetRange]) -> Iterator[list[OffsetRange]]:
    """Return the ranges in order, with short ones of different partitions grouped in lists."""
    held: dict[int, OffsetRange] = {}
    room = MAX_RECORDS_TOGETHER
    for each in ranges:
        # One longer than a chunk stays by itself.
        weight = len(each) if len(each) <= MAX_CHUNK_RECORDS else MAX_RECORDS_TOGETHER
        if held and (weight > room or each.partition in held):
            yield [*held.values()]
            held, room = {}, MAX_RECORDS_TOGETHER
        room -= weight
        held[each.partition] = each
    if held:
        yield [*held.values()]


def _is_end(error: KafkaError, message: Message, cursor: Cursor) -> bool:
    """True if an event shows that everything below the range's end was delivered.

    The fetcher reads on past the end. What is damaged there is not this range's, and all before it came.
    """
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    return is_damage(error) and (message.offset() or 0) >= cursor.wanted.end


def _is_beyond(error: KafkaError, message: Message, cursor: Cursor) -> bool:
    """True if the fetcher failed past the range's end, where the previous range ended."""
    return error.code() == KafkaError._AUTO_OFFSET_RESET and (message.offset() or 0) > cursor.wanted.end


# Whether a log lost its end below what a table has of it.
#
# One that grew past the table again looks as if only new records had come; ends alone cannot tell. Each
# leader of a partition has an epoch, and says where the log of an earlier one ends in its own history
# (KIP-101, KIP-320).


def cut_below(
    kafka: Mapping[str, str], progress: Progress, source: SourceState, partition: int
) -> OffsetsUnavailable | None:
    """Return the error of a log cut below the table's offsets in the partition, or None.

    ``kafka`` are resolved client properties. Asks nobody while the leader is the one that the last batch was
    planned under, and where there is nothing to read yet. Raises what reading a record raises, but for what
    says nothing about the log's end.
    """
    if not has_new_leader(progress, source, partition):
        return None
    last_end, epoch = progress.leader_epochs[partition]
    # A skip moves the next offset on, over records of later epochs; a rollback moves it back.
    start = min(last_end, progress.next_offsets[partition])
    # A client of its own: librdkafka asks only for what is assigned before it knows the leader.
    try:
        with open_reader(kafka, source.topic, chunk_bytes=1 << 20) as reader:
            list(reader.read(OffsetRange(partition, start, start + 1), leader_epoch=epoch))
    except OffsetsUnavailable as error:
        # Where retention has passed the place, the plan judges the next offset.
        return None if error.code == "retention-passed" else error
    except RetryableError as error:
        # Its place is good: a record that an operator had skipped cannot be read now either.
        if error.code != "records-damaged":
            raise
    return None
