"""What a stream keeps in Kafka: its events, and in a compacted topic beside them how far each source is.

The topic of states has a partition for each slot, which one transactional id alone writes: whoever has taken
the slot finds nothing undecided in it.
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
# A header of a state, which gateways before it pass over.
DIGESTS = "sluice-digests"
# Of so many of a source's last numbers: twice what a client has on its way.
_MOST_DIGESTS = 32
# Of the gateway that has the slot; sources are texts that can be shown.
OWNER_KEY = b"\0gateway"
_MADE_SECONDS = 10.0
_DECIDED_SECONDS = 30.0
_MARKED_SECONDS = 1.0
_LOOK_SECONDS = 0.05

Ids = dict[tuple[str, str, str], float]
_Kept = TypeVar("_Kept")


class Outgoing(NamedTuple):
    """A record to be written."""

    key: bytes | None
    value: bytes | None
    headers: Headers | None = None


@dataclass(frozen=True, slots=True)
class Stand:
    """How far a source is: its last sequence, and how many events of its own lie in the topic.

    ``digests`` are of the batches of its last numbers, one behind the other; fewer where nobody kept them.
    """

    sequence: int = 0
    events: int = 0
    digests: bytes = b""

    def after(self, digest: bytes, events: int) -> Stand:
        """Return where it is one batch further."""
        kept = (self.digests + digest)[-_MOST_DIGESTS * DIGEST_BYTES :]
        return Stand(self.sequence + 1, self.events + events, kept)

    def is_of(self, number: int, digest: bytes) -> bool | None:
        """Return whether a number of before is that batch's, None where nobody knows."""
        at = len(self.digests) - (self.sequence - number + 1) * DIGEST_BYTES
        return self.digests[at : at + DIGEST_BYTES] == digest if at >= 0 else None

    @property
    def has_all(self) -> bool:
        """True if a number that nobody knows is too long past for an honest client to send."""
        return len(self.digests) == _MOST_DIGESTS * DIGEST_BYTES

    def to_bytes(self) -> bytes:
        """Return it as it is kept."""
        return orjson.dumps({"sequence": self.sequence, "events": self.events})

    @classmethod
    def read(cls, value: bytes, headers: Headers | None) -> Stand | None:
        """Return what was kept, whatever a newer gateway keeps beside it; None of what is none."""
        told, digests = _object(value), dict(headers or ()).get(DIGESTS) or b""
        sequence, events = told.get("sequence"), told.get("events")
        if type(sequence) is int and type(events) is int:
            return cls(sequence, events, digests)
        return None


@dataclass(frozen=True, slots=True)
class Owner:
    """A gateway: where it is asked, and which of its processes it is."""

    url: str
    process: str

    @classmethod
    def read(cls, value: bytes, _headers: Headers | None = None) -> Owner | None:
        """Return what was kept, as of ``Stand``."""
        told = _object(value)
        url, process = told.get("url"), told.get("process")
        return cls(url, process) if type(url) is str and type(process) is str else None


class StreamTopics:
    """Reads what gateways before this one left; asked from the threads of all slots.

    ``refresh`` has ``kafka`` and its ``admin`` take secrets that were rotated.
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
        """Make the topic of states where there is none.

        Raises ``ConfigError`` for a topic of events that is not there, and as ``KafkaAdmin``.
        """
        with self._made:
            if self._is_made:
                return
            self._admin.identity(self.topic)
            if self.states not in self._admin.topics():
                self._admin.make_topic(self.states, SLOTS, {"cleanup.policy": "compact"})
            if len(self._made_state().end) != SLOTS:
                raise fault("gateway-states", topic=self.states)
            self._is_made = True

    def _made_state(self) -> SourceState:
        """Look at the topic of states, which brokers may hear of a moment after it was made."""
        deadline = time.monotonic() + _MADE_SECONDS
        while True:
            try:
                return self._admin.source_state(self.states)
            except ConfigError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_LOOK_SECONDS)

    def stands(self, slot: int) -> dict[str, Stand]:
        """Return how far the slot's sources are; the slot is taken."""
        self._decided(self.states, [slot])
        kept = self._kept(slot, Stand.read).items()
        return {source: stand for key, stand in kept if key != OWNER_KEY and (source := _text(key))}

    def unmarked(self, slot: int) -> tuple[int, ...] | None:
        """Return the partitions of events that a finished transaction of the slot holds, None for none.

        The slot is taken: its coordinator has decided what nobody else writes in the slot's states. But
        those of Kafka 4.1 to 4.3, when they start, drop markers for partitions that have no leader yet
        (KAFKA-20734): what was committed waits for ever.
        """
        deadline = time.monotonic() + _MARKED_SECONDS
        while slot in self._admin.source_state(self.states).undecided:
            if time.monotonic() > deadline:
                return tuple(self._admin.source_state(self.topic).undecided)
            time.sleep(_LOOK_SECONDS)
        return None

    def owner(self, slot: int) -> Owner | None:
        """Return the gateway that took the slot last."""
        self.refresh()
        return self._kept(slot, Owner.read).get(OWNER_KEY)

    def _kept(self, slot: int, read: Callable[[bytes, Headers | None], _Kept | None]) -> dict[bytes, _Kept]:
        """Return the last of each key that can be read; what others wrote there is passed over."""
        last = dict[bytes, _Kept]()
        for key, value, headers, _ in self._read(self.states, slot, 0, self._admin.source_state(self.states)):
            if key is not None and value is None:
                last.pop(key, None)
            elif key is not None and value is not None and (kept := read(value, headers)) is not None:
                last.pop(key, None)  # the latest is the last
                last[key] = kept
        return last

    def ids(self, slot: int, after: float) -> Ids:
        """Return the ids of the slot's events of late and when they came; read ``after`` that moment.

        Moments are of ``time.monotonic``: a clock may be put back. One reading does for all slots that were
        taken before it began.
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
                told = dict(headers or ())
                source = _text(told.get(SOURCE))
                for kind in (EVENT_ID, BATCH_ID):
                    if source and (name := _text(told.get(kind))):
                        yield (source, kind, name), began - max(0.0, began_ms - time_ms) / 1000

    def _decided(self, topic: str, partitions: Collection[int]) -> SourceState:
        """Return the topic's ends once they have reached what is in it now: others' transactions are short.

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
    """Return a text, None of bytes that are none: whoever else writes there writes what they like."""
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
    """Yield the records of events that are neither ``known`` nor ``new``; their ids are ``new`` from then on.

    They are numbered from where their source stands; there are none of a batch whose own id is known. Ids
    are of the time ``now``; None remembers none.
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
