"""One slot of a stream: writes the batches of its intake to Kafka, or to the disk.

A batch is answered once it is stored. If the outcome of a write is unknown, the slot is taken over again,
which shows what Kafka has; missing batches are written again in order, before later ones.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from gateway.intake import Intake, Waiting, misplaced
from gateway.messages import Ack, Answer, Nack, Reason, State, Status
from gateway.spool import Spool, SpoolFullError
from gateway.tokens import Pace
from gateway.topics import Ids, Outgoing, Stand, records_of
from gateway.writer import RecordRefusedError, Writer
from spark_jobs.config.gateway import MemorySettings
from spark_jobs.config.secrets import scrub
from spark_jobs.protocol.errors import CommitConflict, ConfigError, SluiceError

TRIES = 3
_BETWEEN_TRIES_SECONDS = 1.0
RETRY_SECONDS = 5.0
_DRAIN_SECONDS = 5.0
_START_RETRY_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Lane:
    """A slot, used from the server's loop; its own thread does the work."""

    def __init__(
        self,
        writer: Writer,
        spool: Spool,
        place: tuple[str, int],
        *,
        ids_seconds: int,
        memory: MemorySettings,
        reach: Callable[[str], None],
        on_end: Callable[[], None],
    ) -> None:
        self._writer = writer
        self._spool = spool
        self._place = place
        self._ids_seconds = ids_seconds
        self._reach = reach
        self._on_end = on_end
        self.intake = Intake(ids_seconds, spool.known(*place), memory)
        self._on_disk = spool.ends(*place)  # the last sequence of each source that has batches there
        self._is_draining = False
        self._pace = Pace()
        self._try_at = 0.0
        self._last_warning = ""
        self._thread = threading.Thread(target=self._run, name=f"gateway-{place[0]}-{place[1]}", daemon=True)

    def start(self) -> None:
        """Take over the slot, and write batches until closed."""
        self._thread.start()

    def join(self) -> None:
        """Wait for the end of a started slot, whose intake is closed."""
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def state(self) -> State:
        """The slot's state for clients."""
        if self._on_disk:
            return State.DRAINING if self._is_draining else State.SPOOLING
        return State.BUSY if self.intake.is_slow else State.READY

    # The methods below run in the slot's own thread.

    def _run(self) -> None:
        is_over = False
        while not is_over:
            try:
                self._work()
                is_over = True
            except Exception:  # noqa: BLE001  (this slot restarts, the others continue)
                _log.exception("slot %d of %s failed and restarts", self._place[1], self._place[0])
                self._writer.close()
                self.intake.was_open = False
                message = "the slot of this source failed: see the gateway's log"
                self._refuse(self.intake.give_up(), Reason.INTERNAL_ERROR, message)
                self.intake.pause(RETRY_SECONDS)
                is_over = self.intake.is_closing
        self._writer.close()
        self._refuse(self.intake.give_up(), Reason.SHUTTING_DOWN, "the gateway is shutting down")
        self._on_end()

    def _work(self) -> None:
        intake = self.intake
        while not intake.was_open and not intake.is_closing and self.intake.ended is None:
            if not self._is_brought():
                intake.pause(_START_RETRY_SECONDS)
        while self.intake.ended is None:
            now = time.monotonic()
            until = self._try_at if self._on_disk else now + RETRY_SECONDS
            window = intake.next_window(until, self._pace.most_bytes, may_read=now >= self._try_at)
            if window is None:
                return
            self._handle(window)

    def _handle(self, window: list[Waiting]) -> None:
        """Store a window of batches: in Kafka, or on the disk if Kafka does not answer."""
        is_away = bool(self._on_disk) and time.monotonic() < self._try_at
        is_once = bool(self._on_disk) or self.intake.is_closing or not window
        tries = 0 if is_away else 1 if is_once else TRIES
        # Each try may wait for a silent broker, so the time of all tries is limited.
        last_try_by = time.monotonic() + TRIES * _BETWEEN_TRIES_SECONDS
        for number in range(tries):
            if number:
                if time.monotonic() > last_try_by:
                    break
                self.intake.pause(_BETWEEN_TRIES_SECONDS)
            if self._is_brought(window) or self.intake.ended is not None:
                return
        if tries:
            self._try_at = time.monotonic() + (0 if self._is_draining else RETRY_SECONDS)
        self._spool_rest(self.intake.still_waiting(window))

    def _is_brought(self, window: Sequence[Waiting] = ()) -> bool:
        """Take over the slot if needed, write the batches on the disk, then the window.

        Returns False if Kafka does not answer, or the slot is to end before all batches of the disk are
        written. A slot that another gateway owns, or that never worked, ends.
        """
        try:
            if not self._writer.is_open:
                # What was written before the answer was lost.
                self._settle(self.intake.open(*self._writer.open()))
            self.intake.read(self._writer.read_stands)
            if not self._drain_spool():
                return False
            self._write(self.intake.still_waiting(window))
        except SluiceError as error:
            self._is_draining = False
            is_lost = isinstance(error, CommitConflict)
            if is_lost or (isinstance(error, ConfigError) and not self.intake.was_open):
                self.intake.ended = error
            elif error.code != self._last_warning:  # and not again each few seconds
                self._last_warning = error.code
                _log.warning("%s", scrub(str(error)))
            return False
        self._last_warning = ""
        return True

    def _drain_spool(self) -> bool:
        """Write batches from the disk for a limited time; newer ones are added behind them meanwhile."""
        self._is_draining, until = bool(self._on_disk), time.monotonic() + _DRAIN_SECONDS
        while self._on_disk and not self.intake.is_closing:
            if not (spooled := self._spool.first(*self._place, self._pace.most_bytes)):
                self._on_disk.clear()
                break
            window = [self.intake.of_spool(each.batch) for each in spooled]
            self._write(window)
            self._reach("after-drained")
            self._spool.drop(spooled)
            if left := [each for each in window if not self.intake.is_settled(each)]:
                what = "Kafka does not accept %d batches of the spool, from sequence number %d of source %s"
                _log.error(what, len(left), left[0].sequence, left[0].source)
                self._on_disk = self._spool.ends(*self._place)
            if time.monotonic() > until:
                return False
        self._is_draining = False
        return not self._on_disk

    def _write(self, window: Sequence[Waiting]) -> None:
        """Write the batches that continue their sources; a batch that the broker rejects fails alone."""
        stands, ids, records = dict[str, Stand](), Ids(), list[Outgoing]()
        fits, left, others = list[Waiting](), list[Waiting](), set[str]()
        now = time.monotonic() if self._ids_seconds else None
        for each in window:
            stand = stands.get(each.source) or self.intake.stand(each.source)
            if each.source in others or each.sequence != stand.sequence + 1:
                if each.sequence <= stand.sequence and not self.intake.is_settled(each):
                    others.add(each.source)  # what is behind a batch that has no place has none
                left.append(each)
                continue
            made = list(records_of(each.batch, stand, self.intake.ids, ids, now))
            stands[each.source] = stand.after(each.batch.digest, len(made))
            each.counts = len(made), len(each.batch.events) - len(made)
            records += made
            fits.append(each)
        if fits and self._is_taken(records, stands, fits):
            self.intake.know(stands, ids)
            self._settle(fits)
        self._answer(left, self._misfit)

    def _is_taken(
        self, records: Sequence[Outgoing], stands: dict[str, Stand], fits: Sequence[Waiting]
    ) -> bool:
        try:
            with self._pace.measure(sum(each.batch.size_bytes for each in fits)):
                self._writer.write(records, stands)
        except RecordRefusedError as error:
            if len(fits) == 1:
                self._refuse(fits, Reason.INVALID_FORMAT, f"Kafka rejected the batch: {error}")
            else:
                for each in fits:
                    self._write([each])
            return False
        return True

    def _settle(self, done: Sequence[Waiting]) -> None:
        """Acknowledge batches that are in Kafka."""
        status = Status.BUFFERED if self.intake.is_slow else Status.OK
        self._answer(done, lambda each: Ack(each.sequence, status, *each.counts))

    def _misfit(self, left: Waiting) -> Answer:
        """Return the answer for a batch that is already in Kafka, or does not continue its source."""
        if self.intake.is_settled(left):
            return Ack(left.sequence, Status.DUPLICATE, skipped=len(left.batch.events))
        return misplaced(left.sequence, self.intake.stand(left.source).sequence)

    def _refuse(self, left: Sequence[Waiting], reason: Reason, message: str) -> None:
        self._answer(left, lambda each: Nack(reason, message, each.sequence))

    def _answer(self, done: Sequence[Waiting], answer: Callable[[Waiting], Answer]) -> None:
        self.intake.forget(done)
        for each in done:
            self._notify(each, answer(each))

    def _spool_rest(self, left: list[Waiting]) -> None:
        """Write batches that continue their source to the disk; clients keep them until `ok`."""
        ends, fits, misfits = dict[str, int](), list[Waiting](), list[Waiting]()
        for each in left:
            if each.sequence == (ends.get(each.source) or self._last(each.source)) + 1:
                ends[each.source] = each.sequence
                fits.append(each)
            else:
                misfits.append(each)
        if fits:
            self._spool_window(fits, ends)
        self._answer(misfits, lambda each: misplaced(each.sequence, self._last(each.source)))

    def _last(self, source: str) -> int:
        return self._on_disk.get(source) or self.intake.stand(source).sequence

    def _spool_window(self, window: list[Waiting], ends: dict[str, int]) -> None:
        try:
            self._spool.put(*self._place, [each.batch for each in window])
        except SpoolFullError:
            self._refuse(window, Reason.BUFFER_FULL, "Kafka does not answer, and the spool is full")
            return
        except SluiceError as error:
            _log.error("%s", scrub(str(error)))
            message = "Kafka does not answer, and writing to the spool failed"
            self._refuse(window, Reason.INTERNAL_ERROR, message)
            return
        self._reach("after-spooled")
        self._on_disk |= ends
        self.intake.spooled(window)
        for each in window:
            self._notify(each, Ack(each.sequence, Status.FALLBACK))

    def _notify(self, waiting: Waiting, answer: Answer) -> None:
        self._reach("before-answer")
        for listener in waiting.listeners:
            listener(answer)
            if isinstance(answer, Ack) and answer.status in {Status.OK, Status.BUFFERED}:
                # Who sent it again meanwhile: else its events would be counted twice.
                answer = Ack(answer.sequence, Status.DUPLICATE, skipped=answer.processed + answer.skipped)
