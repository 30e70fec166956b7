"""The accepted batches of a slot, and the state of their sources; used by the loop and the slot's thread.

A source's batches are accepted in order; a repeated one joins the first, one with a gap is rejected.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import itemgetter

from gateway.messages import Ack, Answer, Batch, Nack, Reason, Status
from gateway.topics import BATCH_ID, Ids, Stand
from spark_jobs.config.gateway import MemorySettings
from spark_jobs.protocol.errors import SluiceError

# A transaction's cost for the broker is fixed: with 5 ms, eight slots kept a broker busy with small ones.
WINDOW_SECONDS = 0.025
WINDOW_BATCHES = 500
QUEUE_BATCHES = 2_000
QUEUE_BYTES = 32 << 20
SLOW_DOWN_ABOVE = 0.8
_MOST_LISTENERS = 3
_READ_MS = 500

Listener = Callable[[Answer], None]


@dataclass(slots=True, eq=False)
class Waiting:
    """An accepted batch that is not known to be in Kafka yet, with its listeners.

    It has no events while they are on the disk only; ``counts`` are those of its last write, as in an
    ``Ack``.
    """

    batch: Batch
    listeners: list[Listener] = field(default_factory=list)
    is_spooled: bool = False
    counts: tuple[int, int] = (0, 0)

    @property
    def source(self) -> str:
        """The id of the batch's source."""
        return self.batch.source

    @property
    def sequence(self) -> int:
        """The batch's sequence number, set when it is accepted."""
        return self.batch.sequence or 0

    @property
    def key(self) -> tuple[str, int]:
        """The batch's identity in its slot."""
        return self.source, self.sequence


class Intake:
    """Accepts batches once it ``was_open``, until it ``is_closing`` or has ``ended``.

    ``stands`` and ``ids`` are the state in Kafka as far as known; only the slot's thread changes them.
    """

    def __init__(
        self,
        ids_seconds: int,
        on_disk: Iterable[Batch],
        memory: MemorySettings,
    ) -> None:
        """Begin with the batches on the disk, without their events; ``memory`` has the limits."""
        self._memory = memory
        self._ids_seconds = ids_seconds
        self._changed = threading.Condition()
        self._queue: deque[Waiting] = deque()
        self._queue_bytes = 0
        self._waiting: dict[tuple[str, int], Waiting] = {}
        self._by_id: dict[tuple[str, str], Waiting] = {}
        self._accepted: dict[str, int] = {}
        for batch in on_disk:
            self._know(Waiting(batch, is_spooled=True))
        self.stands: dict[str, Stand] = {}
        self.ids: OrderedDict[tuple[str, str, str], float] = OrderedDict()
        self._requested: set[str] = set()  # forgotten sources whose state is requested
        self._has_forgotten = False
        self.was_open = self.is_closing = False
        self.ended: SluiceError | None = None

    def offer(self, batch: Batch, listener: Listener) -> Answer | None:
        """Accept a batch, or return an answer at once.

        ``listener`` is called from another thread: once, or twice for a batch that was first on the disk.
        """
        with self._changed:
            self._forget_ids()
            if (refusal := self._refusal(batch)) is not None:
                return refusal
            stand, accepted = self.stand(batch.source), self.accepted(batch.source)
            number = batch.sequence or self._known_number(batch) or accepted + 1
            if number > accepted + 1:
                return misplaced(number, accepted)
            if number > accepted:
                self._take(Waiting(replace(batch, sequence=number), [listener]))
                return None
            is_known = batch.id is not None and (batch.source, BATCH_ID, batch.id) in self.ids
            waiting = self._waiting.get((batch.source, number))
            if waiting is not None and not is_known:
                is_same = waiting.batch.digest == batch.digest or waiting.batch.id == batch.id is not None
                return self._join(waiting, listener) if is_same else misplaced(number, accepted)
            is_of = stand.is_of(number, batch.digest)
            if is_known or is_of or (is_of is None and not stand.has_all):
                return Ack(number, Status.DUPLICATE, skipped=len(batch.events))
            return misplaced(number, accepted)

    def progress(self, source: str) -> dict[str, int]:
        """Return the source's last accepted number, and its last one in Kafka; empty if unknown."""
        if self.unknown(source) is not None:
            return {}
        return {
            "lastAckSequence": self.accepted(source),
            "lastOkSequence": self.stand(source).sequence,
        }

    def accepted(self, source: str) -> int:
        """Return the last number of a source that is in Kafka, on the disk, or waiting."""
        return max(self._accepted.get(source, 0), self.stand(source).sequence)

    def _known_number(self, batch: Batch) -> int | None:
        """Return the number of an earlier batch with that id; for one in Kafka the source's last number."""
        if batch.id is None:
            return None
        if (batch.source, BATCH_ID, batch.id) in self.ids:
            return self.stand(batch.source).sequence
        waiting = self._by_id.get((batch.source, batch.id))
        return None if waiting is None else waiting.sequence

    def _join(self, waiting: Waiting, listener: Listener) -> Answer | None:
        """Add a listener to a batch that waits, or is on the disk."""
        waiting.listeners = [*waiting.listeners[-_MOST_LISTENERS:], listener]
        return Ack(waiting.sequence, Status.FALLBACK) if waiting.is_spooled else None

    def _forget_ids(self) -> None:
        """Forget old ids, which are at the front."""
        since = time.monotonic() - self._ids_seconds
        while self.ids and self.ids[next(iter(self.ids))] < since:
            self.ids.popitem(last=False)

    def _refusal(self, batch: Batch) -> Nack | None:
        sequence = batch.sequence
        if self.is_closing or self.ended is not None:
            return Nack(Reason.SHUTTING_DOWN, "the gateway is shutting down", sequence)
        if self._used() >= 1:
            return Nack(Reason.BUFFER_FULL, "too many batches wait for Kafka", sequence)
        if len(self.ids) >= self._memory.event_ids and any((batch.id, *(event.id for event in batch.events))):
            return Nack(Reason.BUFFER_FULL, "the memory for event ids and batch ids is full", sequence)
        return self.unknown(batch.source, sequence)

    def unknown(self, source: str, sequence: int | None = None) -> Nack | None:
        """Return the rejection while the source's state is not known, None once it was read from Kafka."""
        if not self.was_open:
            return Nack(Reason.INTERNAL_ERROR, "the gateway has not reached Kafka since its start", sequence)
        with self._changed:
            if not self._has_forgotten or source in self.stands or source in self._accepted:
                return None
            if len(self._requested) < self._memory.sources:
                self._requested.add(source)
                self._changed.notify_all()
        message = "the source's last sequence number is being read from Kafka: send again"
        return Nack(Reason.INTERNAL_ERROR, message, sequence, _READ_MS)

    def _take(self, waiting: Waiting) -> None:
        self._know(waiting)
        self._queue.append(waiting)
        self._queue_bytes += waiting.batch.size_bytes
        self._changed.notify_all()

    def _know(self, waiting: Waiting) -> None:
        self._accepted[waiting.source] = waiting.sequence
        self._waiting[waiting.key] = waiting
        if waiting.batch.id is not None:
            self._by_id[waiting.source, waiting.batch.id] = waiting

    @property
    def is_slow(self) -> bool:
        """True if clients should slow down."""
        return self._used() > SLOW_DOWN_ABOVE

    def _used(self) -> float:
        return max(len(self._queue) / QUEUE_BATCHES, self._queue_bytes / QUEUE_BYTES)

    def size(self) -> tuple[int, int, float]:
        """Return the number of batches in the queue, their bytes, and the used share of the queue."""
        with self._changed:
            return len(self._queue), self._queue_bytes, self._used()

    def stand(self, source: str) -> Stand:
        """Return the state of a source in Kafka."""
        return self.stands.get(source, Stand())

    def close(self) -> None:
        """Accept no more batches; the slot ends when the accepted ones are in Kafka or on the disk."""
        with self._changed:
            self.is_closing = True
            self._changed.notify_all()

    # The methods below are called by the slot's own thread.

    def pause(self, seconds: float) -> None:
        """Wait for ``seconds``, or until it is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_closing, seconds)

    def next_window(self, until: float, most_bytes: int, *, may_read: bool) -> list[Waiting] | None:
        """Return waiting batches in order; empty at ``until``, None when all is done.

        They are not larger than ``most_bytes``, except a single batch. If it ``may_read``, the result is also
        empty when a source's state is requested.
        """
        with self._changed:
            while not self._queue:
                if self._requested and may_read:
                    return []
                if self.is_closing:
                    return None
                if (wait := until - time.monotonic()) <= 0:
                    return []
                self._changed.wait(wait)
            is_full = len(self._queue) >= WINDOW_BATCHES
        if not is_full:
            time.sleep(WINDOW_SECONDS)
        window: list[Waiting] = []
        size = 0
        with self._changed:
            while self._queue and len(window) < WINDOW_BATCHES:
                next_bytes = self._queue[0].batch.size_bytes
                if window and size + next_bytes > most_bytes:
                    break
                window.append(self._queue.popleft())
                size += next_bytes
            self._queue_bytes -= size
        return window

    def open(self, stands: Mapping[str, Stand], ids: Ids) -> list[Waiting]:
        """Set the state found in Kafka; return the batches that are in it and were not answered."""
        with self._changed:
            self.stands.clear()  # they may be lower than before: a re-created topic, a restored Kafka
            self.know(stands, dict(sorted(ids.items(), key=itemgetter(1))))
            self._accepted = dict(sorted(self._waiting))
            self.was_open = True
            return [each for each in self._waiting.values() if self.is_settled(each)]

    def know(self, stands: Mapping[str, Stand], ids: Ids) -> None:
        """Update the state in Kafka."""
        with self._changed:
            for source, stand in stands.items():
                self.stands.pop(source, None)  # the last to be forgotten
                self.stands[source] = stand
            self.ids.update(ids)
            for source in [*islice(self.stands, max(0, len(self.stands) - self._memory.sources))]:
                if source not in self._accepted:
                    del self.stands[source]
                    self._has_forgotten = True

    def read(self, read: Callable[[], Mapping[str, Stand]]) -> None:
        """Read the state of the requested sources again."""
        with self._changed:
            requested, self._requested = self._requested, set()
        if requested:
            stands = read()
            self.know({source: stands.get(source, Stand()) for source in requested}, {})

    def of_spool(self, batch: Batch) -> Waiting:
        """Return a batch from the disk, with its listeners."""
        with self._changed:
            waiting = self._waiting.get((batch.source, batch.sequence or 0)) or Waiting(
                batch, is_spooled=True
            )
            waiting.batch = batch
            return waiting

    def still_waiting(self, window: Sequence[Waiting]) -> list[Waiting]:
        """Drop batches that were answered or superseded by a newer one from the same source."""
        with self._changed:
            return [each for each in window if self._waiting.get(each.key) is each]

    def spooled(self, left: Sequence[Waiting]) -> None:
        """Mark batches as being on the disk, and free their events."""
        with self._changed:
            for each in left:
                each.batch, each.is_spooled = replace(each.batch, events=()), True

    def forget(self, done: Sequence[Waiting]) -> None:
        """Remove finished batches; a source continues after its last batch in Kafka or waiting."""
        with self._changed:
            for each in done:
                batch_id = each.batch.id
                if self._waiting.get(each.key) is each:
                    del self._waiting[each.key]
                if batch_id is not None and self._by_id.get((each.source, batch_id)) is each:
                    del self._by_id[each.source, batch_id]
                accepted = self._accepted.get(each.source, 0)
                if not self.is_settled(each):
                    accepted = self._accepted[each.source] = min(accepted, each.sequence - 1)
                if accepted <= self.stand(each.source).sequence:
                    self._accepted.pop(each.source, None)

    def give_up(self) -> list[Waiting]:
        """Empty the queue; return all waiting batches that are not on the disk."""
        with self._changed:
            self._queue.clear()
            self._queue_bytes = 0
            return [each for each in self._waiting.values() if not each.is_spooled]

    def is_settled(self, waiting: Waiting) -> bool:
        """True if this batch is in Kafka, and not another one with its number."""
        stand = self.stand(waiting.source)
        is_of = stand.is_of(waiting.sequence, waiting.batch.digest)
        return waiting.sequence <= stand.sequence and is_of is not False


def misplaced(number: int, last: int) -> Nack:
    """Return the rejection of a sequence number that another batch has, or that leaves a gap."""
    is_taken = f"sequence number {number} belongs to another batch; " if number <= last else ""
    message = f"{is_taken}the next sequence number is {last + 1}"
    return Nack(Reason.INVALID_SEQUENCE, message, number, expected=last + 1)
