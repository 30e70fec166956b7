"""Follows one pipeline: a thread reads the records behind the table and keeps them in memory.

It starts at the table's offsets, and restarts there if the table or the topic has changed: another epoch,
other columns, or a drain that was faster. Until it has caught up, answers use the earlier records.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from threading import Condition, Event, Thread
from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.hot.decoding_notes import DecodingNotes
from spark_jobs.hot.prefix import HeldRecords, Look, Prefix, Seam, look
from spark_jobs.hot.segment_maker import AskedSchemas, SegmentMaker, segments_of
from spark_jobs.hot.tail_status import (
    PATIENCE_SECONDS,
    State,
    TailStatus,
    not_yet,
    other_epoch,
    required_ends,
    stopped,
)
from spark_jobs.kafka.tail_reader import TailReader, Taken, open_tail
from spark_jobs.protocol.errors import CorruptLog, SluiceError, SourceChanged, fault
from spark_jobs.protocol.source import check_identity

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections
    from spark_jobs.hot.watermark import Watermark

_log = logging.getLogger(__name__)
_TAKE_SECONDS = 0.2  # it ends with the first record
# A tick costs the same for few records as for hundreds: who rests between two takes more of them at once. It
# rests four times as long as it worked, at most these milliseconds.
_TICK_SECONDS, _REST = 0.02, 4
_AGAIN_SECONDS, _LONGEST_SECONDS = 1.0, 30.0
_LIVE_MS = 5_000
# A replica of the catalog may lag behind; a table that stays set back was set back.
LAG_SECONDS = 10.0
# Errors of Kafka's after which what was read behind the table is not what Kafka has any more.
_OTHER_RECORDS = {"log-truncated", "offsets-out-of-order"}


class PipelineFollower:
    """The follower of one pipeline; it closes ``notes``. ``is_tight`` is true if memory is used up."""

    def __init__(
        self,
        pipeline: PipelineConfig,
        connections: Connections,
        notes: DecodingNotes,
        is_tight: Callable[[], bool],
    ) -> None:
        self.pipeline = pipeline
        self._connections = connections
        self._notes = notes
        self._is_tight = is_tight
        self._held: HeldRecords | None = None  # the records of answers; replaced, never changed
        self._floor: HeldRecords | None = (
            None  # the ends of answers before the table was set back, without rows
        )
        self._set_back_since = 0.0
        self._newest: Seam | None = None  # the latest state of the table that was ever seen
        self._reason: SluiceError | None = None
        self._deadly: SluiceError | None = None  # why partitions end where records killed a decoder
        self._asked: AskedSchemas | None = None  # where partitions wait for a registry, it has the reason
        self._complete_at: dict[int, float] = {}
        self._is_full = self._is_ready = False
        self._looked: Look | None = None
        self._closed = Event()
        self._moved = Condition()
        self._thread = Thread(target=self._run, name=f"follow-{pipeline.name}", daemon=True)

    def start(self) -> None:
        """Start reading; return at once."""
        self._thread.start()

    def stop(self) -> None:
        """Stop reading and wake all waiters; pinned results stay valid."""
        self._closed.set()
        with self._moved:
            self._moved.notify_all()

    def join(self, seconds: float) -> None:
        """Wait up to ``seconds`` for the thread's end; a thread that does not end is abandoned."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            _log.warning("following %s does not end; it is left to itself", self.pipeline.name)
        else:
            self._notes.close()

    @property
    def held(self) -> HeldRecords | None:
        """The records that answers use now; None before the first ones."""
        return self._held

    def is_set_back(self, seam: Seam) -> bool:
        """True if the catalog returned an earlier state of the table than before.

        Raises ``SourceChanged`` (``table-rolled-back``) if it keeps doing so, as after a restored backup.
        """
        if self._newest is None or not seam.is_before(self._newest):
            self._set_back_since = 0.0
            return False
        self._set_back_since = self._set_back_since or time.monotonic()
        if time.monotonic() - self._set_back_since > LAG_SECONDS:
            raise fault("table-rolled-back.followed", **self.pipeline.where)
        return True

    @property
    def _answerable(self) -> HeldRecords | None:
        """Return the held records if they are not less than those of earlier answers in their epoch."""
        held, floor = self._held, self._floor
        is_less = held and floor and held.epoch == floor.epoch and not held.watermark.reaches(floor.ends)
        return None if is_less else held

    def update(self, look: Look) -> None:
        """Record the current state of the table and the topic."""
        self._looked = look

    def pin(
        self,
        *,
        after: Mapping[int, int] | None = None,
        at: Watermark | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> Prefix:
        """Return the records for an answer that starts now; see ``Follower.pin``."""
        wanted = required_ends(after, at)
        deadline = time.monotonic() + patience_seconds
        with self._moved:
            while True:
                held = self._answerable
                if held is not None and at is not None and not at.is_of(held.watermark):
                    raise other_epoch(self.pipeline, at, held.watermark)
                if held is not None and held.watermark.reaches(wanted):
                    return held.prefix(age_ms=self._age_ms() or 0, at=at)
                if held is None and self._reason is not None and not self._reason.is_retryable:
                    raise self._reason.with_traceback(None)
                if (left := deadline - time.monotonic()) <= 0 or self._closed.is_set():
                    break
                self._moved.wait(left)
        if held is None:
            raise self._reason or fault("not-yet.table", **self.pipeline.where)
        raise not_yet(self.pipeline, wanted, held.watermark)

    def status(self) -> TailStatus:
        """Return the current state."""
        held, age_ms = self._answerable, self._age_ms()
        reason = self._reason or self._deadly or (self._asked.error if self._asked else None)
        if held is None:
            is_waiting = reason is None or reason.is_retryable or reason.code == "no-table-yet"
            state = State.STARTING if is_waiting else State.FAILED
            return TailStatus(self.pipeline.name, state, reason=reason)
        if reason is not None:
            state = State.BLOCKED
        elif self._is_full:
            state = State.FULL
        else:
            state = State.LIVE if age_ms is not None and age_ms <= _LIVE_MS else State.CATCHING_UP
        rows = sum(share.hot_rows for share in held.prefix(age_ms=0).shares)
        return TailStatus(
            *(self.pipeline.name, state, held.watermark, rows, held.size_bytes, age_ms, self._is_ready),
            reason=reason,
        )

    def _run(self) -> None:
        while not self._closed.is_set():
            before, began = self._held, time.thread_time()
            try:
                self._follow()
                continue
            except SluiceError as error:
                reason = error
            except Exception as error:  # noqa: BLE001  (a thread that ends would say nothing for ever)
                if self._closed.is_set():
                    return  # it was left behind, and what it asks with is closed
                _log.exception("following %s stopped, and begins again", self.pipeline.name)
                reason = stopped(self.pipeline, error)
            self._stand_still(reason)
            self._closed.wait(self._pause_seconds(before, time.thread_time() - began))

    def _pause_seconds(self, before: HeldRecords | None, worked_seconds: float) -> float:
        """Return the pause before the next try, longer for repeated failures: each try starts over."""
        held = self._held
        is_further = held is None or before is None or not before.watermark.reaches(held.ends)
        return max(_AGAIN_SECONDS, 0 if is_further else min(_REST * worked_seconds, _LONGEST_SECONDS))

    def _follow(self) -> None:
        """Read until the table or the topic has changed since the start."""
        pipeline, connections = self.pipeline, self._connections
        seam, epoch, source = look(pipeline, connections)
        if self.is_set_back(seam):
            self._closed.wait(_AGAIN_SECONDS)
            return
        self._newest = seam
        positions = source.positions(seam.progress.next_offsets)
        held = HeldRecords.at(seam, epoch, positions)
        deadly = self._notes.deadly(epoch, positions)
        told, name, topic = ", ".join(map(str, deadly.values())), pipeline.name, pipeline.topic
        died = fault("poison-record.followed", records=told, pipeline=name, topic=topic)
        self._deadly = died if deadly else None
        self._asked = asked = AskedSchemas(pipeline, connections.schemas(pipeline))
        maker = SegmentMaker(pipeline, asked, seam, epoch)
        self._looked = None
        self._show(held)
        with open_tail(connections.kafka, pipeline.topic, held.ends) as reader:
            while not self._closed.is_set():
                taken = reader.take(_TAKE_SECONDS)
                began = time.monotonic()
                if taken:
                    taken = taken.before(deadly)
                    held, late = self._with_taken(held, maker, taken)
                    self._show(held, complete=dict.fromkeys(taken.ends.keys() - late, taken.asked_at))
                    asked.leave_out(reader, taken, late)
                asked.try_again(reader, held)
                looked, self._looked = self._looked, None
                if looked is not None:
                    newer = self._under(held, reader, looked)
                    if newer is None:
                        return
                    held = newer
                self._bound(held, reader)
                if taken:
                    self._closed.wait(min(_TICK_SECONDS, _REST * (time.monotonic() - began)))

    def _with_taken(
        self, held: HeldRecords, maker: SegmentMaker, taken: Taken
    ) -> tuple[HeldRecords, set[int]]:
        """Return the held records with the new ones, and the partitions that end before some of these."""
        positions = {p: tail.end for p, tail in held.tails.items()}
        segments, late = segments_of(taken.chunks, maker, self._notes, held.epoch, positions)
        # After reading: a re-created topic returns its new records at the old offsets, without an error.
        now = self._connections.admin.identity(self.pipeline.topic)
        check_identity(held.seam.progress, now, table=self.pipeline.table)
        return held.with_more(segments, {p: end for p, end in taken.ends.items() if p not in late}), late

    def _under(self, held: HeldRecords, reader: TailReader, looked: Look) -> HeldRecords | None:
        """Return the held records adapted to the newest look; None if reading must restart."""
        source, seam = looked.source, looked.seam
        if isinstance(seam, SluiceError):
            raise seam
        if isinstance(source, SluiceError):
            raise source
        check_identity(held.seam.progress, source, table=self.pipeline.table)
        positions = source.positions(held.seam.progress.next_offsets)
        reader.follow({p: at for p, at in positions.items() if p not in held.tails})
        held = held.with_partitions(positions)
        # The look may have begun before these records were restarted from a later state.
        if seam is not None and not held.is_ahead_of(seam):
            if self._deadly is not None or not held.goes_on_under(seam):
                return None
            self._newest, held = seam, held.under(seam)
        ends = source.end
        self._show(held, complete={p: looked.at for p, end in ends.items() if held.ends[p] >= end})
        return None if held.is_overtaken else held

    def _show(self, held: HeldRecords, *, complete: Mapping[int, float] | None = None) -> None:
        """Use the records for answers, unless the current ones are further ahead."""
        shown = self._held
        if shown is not None and shown.epoch == held.epoch and not held.watermark.reaches(shown.ends):
            return
        if shown is not None and shown.epoch != held.epoch:
            self._complete_at = {}
        with self._moved:
            self._held, self._reason = held, None
            for partition, at in (complete or {}).items():
                self._complete_at[partition] = max(at, self._complete_at.get(partition, at))
            self._is_ready = self._is_ready or self._age_ms() is not None
            self._moved.notify_all()

    def _stand_still(self, error: SluiceError) -> None:
        """Keep the records that stay exact despite the error, and no others."""
        is_lost = isinstance(error, SourceChanged | CorruptLog) or error.code in _OTHER_RECORDS
        with self._moved:
            self._reason = error.with_traceback(None)  # which would hold all that was read till then
            if is_lost:
                if error.code == "table-rolled-back":  # it is followed as any, once it can be drained
                    self._newest, shown = None, self._held
                    self._floor = (
                        HeldRecords.at(shown.seam, shown.epoch, shown.ends) if shown else self._floor
                    )
                self._held, self._complete_at = None, {}
            self._moved.notify_all()

    def _bound(self, held: HeldRecords, reader: TailReader) -> None:
        """Wait while the memory is full of records that no drain has committed."""
        limit = self.pipeline.hot.memory_bytes if self.pipeline.hot else 0
        self._is_full = held.size_bytes > limit or self._is_tight()
        reader.pause(is_paused=self._is_full)

    def _age_ms(self) -> int | None:
        """Return the time since answers last included everything in Kafka; None if unknown."""
        held, complete = self._held, self._complete_at
        if held is None or not held.tails.keys() <= complete.keys():
            return None
        return int((time.monotonic() - min(complete[p] for p in held.tails)) * 1000)
