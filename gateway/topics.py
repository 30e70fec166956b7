"""The topics of a stream: its events, and a compacted topic with the state of each source.

The topic of states has a partition for each slot, written by one transactional id only: after taking over a
slot, a gateway finds no open transaction in it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import orjson

from gateway.messages import DIGEST_BYTES, Batch, slot_of
from spark_jobs.config.gateway import SLOTS
from spark_jobs.kafka.admin import KafkaAdmin
from spark_jobs.kafka.chunks import Headers
from spark_jobs.kafka.reader import open_reader
from spark_jobs.protocol.errors import ConfigError, fault
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.source import SourceState

STATES_SUFFIX = ".sluice-sources"
SOURCE, SEQUENCE, EVENT = "sluice-source", "sluice-sequence", "sluice-event"
EVENT_ID, BATCH_ID = "sluice-event-id", "sluice-batch-id"
# A header of a state, which older gateways ignore.
DIGESTS = "sluice-digests"
# Digests kept for a source's last numbers: twice the number of batches that a client may have open.
_MOST_DIGESTS = 32
# The key of the slot's owner; source ids are printable, so none is equal to it.
OWNER_KEY = b"\0gateway"
_MADE_SECONDS = 10.0
_DECIDED_SECONDS = 30.0
_MARKED_SECONDS = 1.0
_LOOK_SECONDS = 0.05

Ids = dict[tuple[str, str, str], float]
_State = TypeVar("_State")


class Outgoing(NamedTuple):
    """A record to be written."""

    key: bytes | None
    value: bytes | None
    headers: Headers | None = None


@dataclass(frozen=True, slots=True)
class Stand:
    """The state of a source in Kafka: its last sequence number, and its number of events in the topic.

    ``digests`` are those of its last batches, concatenated; older gateways stored fewer.
    """

    sequence: int = 0
    events: int = 0
    digests: bytes = b""

    def after(self, digest: bytes, events: int) -> Stand:
        """Return the state after one more batch."""
        kept = (self.digests + digest)[-_MOST_DIGESTS * DIGEST_BYTES :]
        return Stand(self.sequence + 1, self.events + events, kept)

    def is_of(self, number: int, digest: bytes) -> bool | None:
        """Return True if an earlier number is that batch's, None if unknown."""
        at = len(self.digests) - (self.sequence - number + 1) * DIGEST_BYTES
        return self.digests[at : at + DIGEST_BYTES] == digest if at >= 0 else None

    @property
    def has_all(self) -> bool:
        """True if a number without a digest is too old for a correct client to send."""
        return len(self.digests) == _MOST_DIGESTS * DIGEST_BYTES

    def to_bytes(self) -> bytes:
        """Return the stored form."""
        return orjson.dumps({"sequence": self.sequence, "events": self.events})

    @classmethod
    def read(cls, value: bytes, headers: Headers | None) -> Stand | None:
        """Read the stored form, ignoring unknown fields; None if it is invalid."""
        fields, digests = _object(value), dict(headers or ()).get(DIGESTS) or b""
        sequence, events = fields.get("sequence"), fields.get("events")
        if type(sequence) is int and type(events) is int:
            return cls(sequence, events, digests)
        return None


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a slot: a gateway's address, and the id of its process."""

    url: str
    process: str

    @classmethod
    def read(cls, value: bytes, _headers: Headers | None = None) -> Owner | None:
        """Read the stored form, as in ``Stand``."""
        fields = _object(value)
        url, process = fields.get("url"), fields.get("process")
        return cls(url, process) if type(url) is str and type(process) is str else None


class StreamTopics:
    """Reads the state that earlier gateways stored; used by the threads of all slots.

    ``refresh`` updates rotated secrets in ``kafka`` and ``admin``.
    """

    def __init__(
        self,
        kafka: Mapping[str, str],
        admin: KafkaAdmin,
        topic: str,
        ids_seconds: int,
        refresh: Callable[[], None] = lambda: None,
    ) -> None:
        self.topic = topic
        self.states = f"{topic}{STATES_SUFFIX}"
        self.kafka = kafka
        self.ids_seconds = ids_seconds
        self.refresh = refresh
        self._admin = admin
        self._is_made = False
        self._made = threading.Lock()
        self._reading = threading.Lock()
        self._ids: Ids = {}
        self._ids_began = float("-inf")

    def make(self) -> None:
        """Create the topic of states if it does not exist.

        Raises ``ConfigError`` if the topic of events does not exist, and as ``KafkaAdmin``.
        """
        with self._made:
            if self._is_made:
                return
            self._admin.identity(self.topic)
            if self.states not in self._admin.topics():
                self._admin.make_topic(self.states, SLOTS, {"cleanup.policy": "compact"})
            if len(self._state_when_created().end) != SLOTS:
                raise fault("gateway-states", topic=self.states)
            self._is_made = True

    def _state_when_created(self) -> SourceState:
        """Return the state of the new topic, which brokers may know only after a moment."""
        deadline = time.monotonic() + _MADE_SECONDS
        while True:
            try:
                return self._admin.source_state(self.states)
            except ConfigError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_LOOK_SECONDS)

    def stands(self, slot: int) -> dict[str, Stand]:
        """Return the states of the slot's sources; the slot must be taken over before."""
        self._decided(self.states, [slot])
        states = self._newest_states(slot, Stand.read).items()
        return {source: stand for key, stand in states if key != OWNER_KEY and (source := _text(key))}

    def unmarked(self, slot: int) -> tuple[int, ...] | None:
        """Return the partitions that miss the marker of a finished transaction; None if none do.

        The slot must be taken over before, so its transactions are finished. But when Kafka 4.1 to 4.3
        starts, it drops markers of partitions without a leader (KAFKA-20734), and their committed records
        stay unreadable.
        """
        deadline = time.monotonic() + _MARKED_SECONDS
        while slot in self._admin.source_state(self.states).undecided:
            if time.monotonic() > deadline:
                return tuple(self._admin.source_state(self.topic).undecided)
            time.sleep(_LOOK_SECONDS)
        return None

    def owner(self, slot: int) -> Owner | None:
        """Return the gateway that took over the slot last."""
        self.refresh()
        return self._newest_states(slot, Owner.read).get(OWNER_KEY)

    def _newest_states(
        self, slot: int, read: Callable[[bytes, Headers | None], _State | None]
    ) -> dict[bytes, _State]:
        """Return the last readable value of each key; foreign records are ignored."""
        last = dict[bytes, _State]()
        for key, value, headers, _ in self._read(self.states, slot, 0, self._admin.source_state(self.states)):
            if key is not None and value is None:
                last.pop(key, None)
            elif key is not None and value is not None and (kept := read(value, headers)) is not None:
                last.pop(key, None)  # the latest is the last
                last[key] = kept
        return last

    def ids(self, slot: int, after: float) -> Ids:
        """Return the slot's recent event ids and their times; read later than ``after``.

        Times are those of ``time.monotonic``, since a clock may be set back. One reading serves all slots
        that were taken over before it began.
        """
        if not self.ids_seconds:
            return {}
        with self._reading:
            if self._ids_began < after:
                began = time.monotonic()
                self._ids, self._ids_began = dict(self._recent()), began
            return {name: at for name, at in self._ids.items() if slot_of(name[0]) == slot}

    def _recent(self) -> Iterator[tuple[tuple[str, str, str], float]]:
        began, began_ms = time.monotonic(), time.time() * 1000
        since_ms = round(began_ms - self.ids_seconds * 1000)
        starts = self._admin.offsets_for_times(self.topic, since_ms)
        state = self._decided(self.topic, starts)
        for partition, start in starts.items():
            for _, _, headers, time_ms in self._read(self.topic, partition, start, state):
                by_name = dict(headers or ())
                source = _text(by_name.get(SOURCE))
                for kind in (EVENT_ID, BATCH_ID):
                    if source and (name := _text(by_name.get(kind))):
                        yield (source, kind, name), began - max(0.0, began_ms - time_ms) / 1000

    def _decided(self, topic: str, partitions: Collection[int]) -> SourceState:
        """Return the topic's ends once all transactions in it are finished; these are short.

        Raises ``RetryableError``: ``gateway-undecided``.
        """
        state = self._admin.source_state(topic)
        wanted, deadline = state.high, time.monotonic() + _DECIDED_SECONDS
        while any(state.end[each] < wanted[each] for each in partitions):
            if time.monotonic() > deadline:
                raise fault("gateway-undecided", topic=topic)
            time.sleep(_LOOK_SECONDS)
            state = self._admin.source_state(topic)
        return state

    def _read(
        self, topic: str, partition: int, start: int, state: SourceState
    ) -> Iterator[tuple[bytes | None, bytes | None, Headers | None, int]]:
        wanted = OffsetRange(partition, max(start, state.low[partition]), state.end[partition])
        if not wanted:
            return
        with open_reader(self.kafka, topic, chunk_bytes=1 << 20) as reader:
            for chunk in reader.read(wanted):
                yield from zip(chunk.keys, chunk.values, chunk.headers, chunk.timestamps_ms, strict=True)


def _text(value: bytes | None) -> str | None:
    """Return a text, None for bytes that are not UTF-8: other writers may write anything."""
    with suppress(UnicodeDecodeError):
        return None if value is None else value.decode()
    return None


def _object(value: bytes) -> dict[str, Any]:
    with suppress(orjson.JSONDecodeError):
        if type(read := orjson.loads(value)) is dict:
            return read
    return {}


def records_of(
    batch: Batch, stand: Stand, known: Container[tuple[str, str, str]], new: Ids, now: float | None
) -> Iterator[Outgoing]:
    """Yield the records of events that are neither ``known`` nor ``new``, and add their ids to ``new``.

    They are numbered from the source's state; a batch whose own id is known has none. Ids have the time
    ``now``; with None, no ids are kept.
    """
    own = [(SOURCE, batch.source.encode()), (SEQUENCE, str(batch.sequence).encode())]
    if batch.id is not None:
        own.append((BATCH_ID, batch.id.encode()))
        if now is not None:
            if (name := (batch.source, BATCH_ID, batch.id)) in new or name in known:
                return
            new[name] = now
    number = stand.events
    for event in batch.events:
        headers = own
        if event.id is not None:
            name = (batch.source, EVENT_ID, event.id)
            if now is not None:
                if name in new or name in known:
                    continue
                new[name] = now
            headers = [*own, (EVENT_ID, event.id.encode())]
        number += 1
        yield Outgoing(event.key, event.value, [*headers, (EVENT, str(number).encode())])
