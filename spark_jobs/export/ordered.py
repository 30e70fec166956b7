"""A producer that delivers each record once, in order, at the expected offset, or stops."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from spark_jobs.kafka.chunks import Chunk, Headers
from spark_jobs.kafka.client_properties import new_client, producer_properties, transactional_properties
from spark_jobs.kafka.errors import ClientTroubles, is_of_fenced, translate
from spark_jobs.kafka.reader import open_reader
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.offsets import OffsetRange

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spark_jobs.connections.connect import Connections


WAIT_SECONDS = 60.0
_ROOM_SECONDS = 0.1


class OrderedProducer:
    """Sends records in order; a refused record, or one at an unexpected offset, ends it.

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
        """Send records consecutively, whatever their offsets; raises errors of earlier ones."""
        self._raise_failure()
        hand_over(self._producer, self._topic, chunk, self._on_delivery)
        self.ends[chunk.partition] += len(chunk.offsets)

    def finish(self) -> None:
        """Wait for all deliveries while some still succeed: an uplink may be slow."""
        waiting = len(self._producer)
        while left := self._producer.flush(WAIT_SECONDS):
            self._raise_failure()
            if left >= waiting:
                why = f"{left:,} records have not arrived"
                raise fault("export-slow", seconds=WAIT_SECONDS, why=why, topic=self._topic)
            waiting = left
        self._raise_failure()

    def go_on_at(self, partition: int, offset: int) -> None:
        """Expect the next record at this offset: all were delivered, and the gap before it is filled."""
        self.ends[partition] = self._arrived[partition] = offset

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
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
    """Send records in order, waiting for room in the client's queue."""
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
    """Return the error of a client that cannot continue."""
    cause: KafkaError = error.args[0]
    return (
        disturbed(topic) if is_of_fenced(cause) else translate(cause, "producing", right="Write", topic=topic)
    )


def disturbed(topic: str, where: str = "") -> SluiceError:
    """Return the error for another writer to the target."""
    return fault("export-disturbed", at=where and f": at {where}", topic=topic)


# Offsets without a record, left in a topic as Kafka leaves them: by transactions that are aborted.
#
# Such a transaction takes an offset for each of its records, which nobody reads, and one for the marker
# behind them. Where there is room for the marker alone, the broker refuses the only record: its time is one
# that the topic does not take. No record of an archive is ever in a transaction. So what a dead export left
# open lies in a gap, ends there when the next one opens its clients, and the rest of the gap is filled from
# its end.


# A topic that takes times up to so far ahead takes all that there are, but not the last.
LARGEST_AHEAD_MS = (1 << 63) - (1 << 43)
_MOST_FILLERS = 10_000
_REFUSED_TIME_MS = (1 << 63) - 1
_LOOK_SECONDS = 0.005


class _Clients(NamedTuple):
    """Producer clients. After a refused record a client must restart before it fills, which is slower."""

    fills: Producer
    marks: Producer


class Gaps:
    """Fills gaps of a topic between a producer's records.

    One export of a topic at a time: the clients of a second one fence those of the first.
    """

    def __init__(self, connections: Connections, topic: str, records: OrderedProducer) -> None:
        self._connections = connections
        self._topic = topic
        self._records = records
        self._clients: _Clients | None = None

    def fill(self, partition: int, until: int) -> None:
        """Let the next record arrive at ``until``, regardless of how much of the gap is filled.

        Raises ``ConfigError`` (``export-disturbed``) when the partition ends behind it, ``RetryableError``
        when the broker does not answer.
        """
        start = self._records.ends[partition]
        if start == until:
            return
        gap = OffsetRange(partition, start, until)
        self._records.finish()
        self._reach("before-gap")
        taken = 0
        try:
            clients = self._clients = self._clients or self._opened()
            while (end := self._end(partition)) < until:
                taken += self._abort(clients, partition, end, until - end)
        except KafkaException as error:
            raise failed(error, self._topic) from error
        # What we did not surely take was a dead export's, which nobody can read either, or somebody else's.
        if end > until or (taken < len(gap) and self._can_be_read(gap)):
            raise disturbed(self._topic, str(gap))
        self._records.go_on_at(partition, until)
        self._reach("after-gap")

    def _opened(self) -> _Clients:
        """Open the clients, which ends open transactions of a dead export and writes their markers."""
        clients = _Clients(*(self._client(name) for name in _Clients._fields))
        for client in clients:
            client.init_transactions(WAIT_SECONDS)
        return clients

    def _client(self, name: str) -> Producer:
        transactional_id = f"sluice-export-{self._topic}-{name}"
        properties = transactional_properties(self._connections.kafka, transactional_id)
        return new_client(Producer, properties, ClientTroubles())

    def _can_be_read(self, gap: OffsetRange) -> bool:
        with open_reader(self._connections.kafka, self._topic) as reader:
            return any(chunk.offsets for chunk in reader.read(gap))

    def _abort(self, clients: _Clients, partition: int, end: int, room: int) -> int:
        """Abort transactions at the end of the topic: at least one offset, and at most the room left.

        Return how many are surely ours: where a marker alone went nobody says, another's record may be there.
        """
        arrived = 0

        def told(error: KafkaError | None, _message: Message) -> None:
            nonlocal arrived
            arrived += error is None

        fillers = min(room - 1, _MOST_FILLERS)
        client = clients.fills if fillers else clients.marks
        client.begin_transaction()
        hand_over(client, self._topic, _to_abort(partition, fillers), told)
        client.flush(WAIT_SECONDS)
        if fillers:
            self._reach("after-fillers")
        else:
            self._reach("after-refused")
        client.abort_transaction(WAIT_SECONDS)
        self._reach("after-abort")
        self._await_marker(partition, end + arrived + 1)
        return arrived + 1 if arrived else 0

    def _await_marker(self, partition: int, end: int) -> None:
        """Wait for the broker's marker, which it writes well after it confirms the abort."""
        deadline = time.monotonic() + WAIT_SECONDS
        while self._end(partition) < end:
            if time.monotonic() > deadline:
                why = f"no marker arrived at {partition}:{end - 1}"
                raise fault("export-slow", seconds=WAIT_SECONDS, why=why, topic=self._topic)
            time.sleep(_LOOK_SECONDS)

    def _end(self, partition: int) -> int:
        return self._connections.admin.log_end(self._topic, partition)

    def _reach(self, place: str) -> None:
        self._connections.fail_points.reach(f"export.{place}")


def _to_abort(partition: int, fillers: int) -> Chunk:
    """Return ``count`` filler records; if ``count`` is 0, return one record that the broker will reject."""
    count, time_ms = (fillers, 0) if fillers else (1, _REFUSED_TIME_MS)
    headers: Headers = [("sluice", b"filler")]
    return Chunk(
        partition, [*range(count)], [time_ms] * count, [None] * count, [b""] * count, [headers] * count
    )
