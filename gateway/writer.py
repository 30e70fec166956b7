"""Transactions of one slot of a stream: events and the states of their sources, atomically."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import orjson
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from gateway.topics import DIGESTS, OWNER_KEY, Ids, Outgoing, Owner, Stand, StreamTopics
from spark_jobs.kafka.chunks import Headers
from spark_jobs.kafka.client_properties import new_client, transactional_properties
from spark_jobs.kafka.errors import ClientTroubles, is_of_fenced, translate
from spark_jobs.protocol.errors import SluiceError, fault

ANSWER_SECONDS = 5.0
# The slowest supported uplink: large transactions get more time accordingly.
SLOWEST_BYTES = 128 << 10
_RECORD_BYTES = 100  # the size of a record without key and value
# If every broker refuses connections for this long, waiting longer does not help.
_ALL_DOWN_SECONDS = 1.0
_SLICE_SECONDS = 0.5
_ROOM_SECONDS = 0.1
_PROPERTIES = {
    # Flushing ends it: a partition's records of a transaction go in one request, however slowly they come.
    "linger.ms": "100",
}
# Taking over the slot of a dead gateway ends its transaction; otherwise the broker ends it after this time,
# plus the time that the largest batch needs.
_TRANSACTION_SECONDS = 15.0
_REFUSED = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError.INVALID_MSG_SIZE})


class RecordRefusedError(Exception):
    """The broker rejected a record itself; nothing of its transaction is written."""


class Writer:
    """Takes over the slot from its last owner, and writes. Used by the slot's thread only."""

    def __init__(
        self,
        topics: StreamTopics,
        slot: int,
        own: Owner,
        reach: Callable[[str], None],
        max_batch_bytes: int = 0,
    ) -> None:
        self._topics = topics
        self._slot = slot
        self._own = own
        self._reach = reach
        self._most_seconds = _TRANSACTION_SECONDS + max_batch_bytes / SLOWEST_BYTES
        self._began, self._seconds = 0.0, ANSWER_SECONDS  # of the transaction
        self._producer: Producer | None = None
        self._troubles = ClientTroubles()
        self._failure: KafkaError | None = None
        self._was_ours = False

    @property
    def is_open(self) -> bool:
        """True while this gateway owns the slot, as far as known, and some broker answers."""
        if self._producer is not None:
            self._producer.poll(0)
            if self._troubles.are_all_down:
                self.close()
        return self._producer is not None

    def open(self) -> tuple[dict[str, Stand], Ids]:
        """Take over the slot, ending its open transaction. Return its sources' states and recent event ids.

        Raises ``RetryableError``, ``ConfigError`` and, for a slot that was lost before, ``CommitConflict``.
        """
        self._topics.refresh()
        self._topics.make()
        # A gateway that lost the slot while disconnected must not take it back.
        if self._was_ours and self._topics.owner(self._slot) != self._own:
            raise fault("gateway-fenced", topic=self._topics.topic, slot=self._slot)
        timeout = {"transaction.timeout.ms": str(round(self._most_seconds * 1000))}
        own = _PROPERTIES | timeout | dict(self._topics.kafka)
        name = f"sluice-gateway-{self._topics.topic}-{self._slot}"
        properties = transactional_properties(own, name)
        self._troubles = ClientTroubles()
        producer = new_client(_producer, properties, self._troubles)
        self._wait(producer, producer.init_transactions)
        self._reach("after-taken")
        self._producer = producer
        try:
            if (unmarked := self._topics.unmarked(self._slot)) is not None:
                self._own_it(unmarked)
            after = time.monotonic()
            taken = self._topics.stands(self._slot), self._topics.ids(self._slot, after)
        except SluiceError:
            self.close()
            raise
        self._own_it()
        self._was_ours = True
        return taken

    def read_stands(self) -> dict[str, Stand]:
        """Return the states of the slot's sources; requires the slot. Raises as ``open``."""
        return self._topics.stands(self._slot)

    def _own_it(self, unmarked: Iterable[int] = ()) -> None:
        """Write the slot's owner; ``unmarked`` partitions get a tombstone, whose marker ends all before it.

        It commits: acknowledged batches must not be undone, and all others are complete, or sent again.
        """
        with self._transaction() as producer:
            self._keep(producer, OWNER_KEY, orjson.dumps(asdict(self._own)))
            for partition in unmarked:
                self._produce(producer, self._topics.topic, Outgoing(OWNER_KEY, None), partition)

    def write(self, records: Sequence[Outgoing], stands: Mapping[str, Stand]) -> None:
        """Write records and states in one transaction.

        Raises ``RecordRefusedError``, ``CommitConflict`` (``gateway-fenced``), and ``RetryableError``: then
        the outcome is unknown, and the slot must be taken over again.
        """
        size = sum(len(each.key or b"") + len(each.value or b"") + _RECORD_BYTES for each in records)
        with self._transaction(size) as producer:
            self._reach("after-begin")
            for each in records:
                self._produce(producer, self._topics.topic, each)
            for source, stand in stands.items():
                self._keep(producer, source.encode(), stand.to_bytes(), [(DIGESTS, stand.digests)])
            self._flush(producer)
            self._reach("before-commit")
        self._reach("after-commit")

    def close(self) -> None:
        """Leave the slot; the next owner aborts its open transaction."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()

    @contextmanager
    def _transaction(self, size_bytes: int = 0) -> Iterator[Producer]:
        producer, self._failure = self._producer, None
        # The broker ends it a moment later.
        self._seconds = min(ANSWER_SECONDS + size_bytes / SLOWEST_BYTES, self._most_seconds - ANSWER_SECONDS)
        self._began = time.monotonic()
        if producer is None:
            raise AssertionError("the slot is taken first")
        try:
            producer.begin_transaction()
            yield producer
            self._wait(producer, producer.commit_transaction)
        except (KafkaException, SluiceError) as error:
            self._give_up(producer, error)
        except SystemError as error:
            # The binding raises this for a fatal error within a call; another call returns the error itself.
            self._give_up(producer, _fatal(producer) or self._away(str(error)))

    def _give_up(self, producer: Producer, error: KafkaException | SluiceError) -> None:
        """Raise the error; if the broker rejected a record, keep the slot."""
        if self._failure is not None and self._failure.code() in _REFUSED:
            refused = self._failure
            try:
                self._wait(producer, producer.abort_transaction)
            except SluiceError:
                self.close()
                raise
            raise RecordRefusedError(refused.str())
        self.close()
        raise error if isinstance(error, SluiceError) else self._named(error.args[0])

    def _keep(self, producer: Producer, key: bytes, value: bytes, headers: Headers | None = None) -> None:
        self._produce(producer, self._topics.states, Outgoing(key, value, headers), self._slot)

    def _produce(self, producer: Producer, topic: str, record: Outgoing, partition: int = -1) -> None:
        key, value, headers = record
        while True:
            try:
                producer.produce(topic, value, key, partition, self._on_delivery, headers=headers)  # type: ignore[arg-type]
                break
            except BufferError:
                producer.poll(_ROOM_SECONDS)
                self._wait_no_longer(self._began, "no room for records", self._seconds)

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None and (self._failure is None or self._failure.code() not in _REFUSED):
            self._failure = error

    def _wait(self, producer: Producer, ask: Callable[[float], None]) -> None:
        """Call ``ask`` until it succeeds; a repeated call continues where it was."""
        began = time.monotonic()
        while True:
            try:
                ask(_SLICE_SECONDS)
            except KafkaException as error:
                failure: KafkaError = error.args[0]
                if not failure.retriable():
                    raise self._named(failure) from error
                self._wait_no_longer(began, failure.str())
            else:
                producer.poll(0)
                self._troubles.forget()
                return

    def _flush(self, producer: Producer) -> None:
        while producer.flush(_SLICE_SECONDS):
            self._wait_no_longer(self._began, "records do not arrive", self._seconds)

    def _wait_no_longer(self, began: float, why: str, seconds: float = ANSWER_SECONDS) -> None:
        """Raise if waiting longer does not help."""
        waited = time.monotonic() - began
        if waited > seconds or (self._troubles.are_all_down and waited > _ALL_DOWN_SECONDS):
            refused = self._troubles.refused or self._troubles.of_topic
            raise self._named(refused) if refused else self._away(why)

    def _named(self, error: KafkaError) -> SluiceError:
        if is_of_fenced(error):
            return fault("gateway-fenced", topic=self._topics.topic, slot=self._slot)
        return translate(error, "writing events", right="Write", topic=self._topics.topic, slot=self._slot)

    def _away(self, why: str) -> SluiceError:
        return fault("broker-away.gateway", why=why, topic=self._topics.topic, slot=self._slot)


def _producer(properties: dict[str, Any]) -> Producer:
    # A call for each record that arrived would cost more than the record.
    return Producer({**properties, "delivery.report.only.error": True})


def _fatal(producer: Producer) -> KafkaException | None:
    try:
        producer.abort_transaction(_SLICE_SECONDS)
    except KafkaException as error:
        return error
    return None
