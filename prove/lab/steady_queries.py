"""A follower or a ``serve`` queried repeatedly, each answer compared with the topic."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from prove.lab.fresh_oracle import TopicCopy, ask, checked
from prove.lab.pipeline_lab import PIPELINE
from prove.lab.work_loop import WorkLoop, looping
from spark_jobs.hot.follower import Follower
from spark_jobs.hot.watermark import Watermark
from spark_jobs.protocol.errors import SluiceError

if TYPE_CHECKING:
    from prove.lab.fresh_oracle import Ask
    from prove.lab.pipeline_lab import Lab

_MEMORY_BYTES = 1 << 40
_AS_FRESH_SECONDS = 60.0
_PAUSE_SECONDS = 0.05


class Asker:
    """Querying thread; ``answers`` counts exact answers, ``refused`` counts errors by code.

    Of the answers of one epoch none has less than the one before, and epochs do not go back.
    """

    def __init__(self, lab: Lab, by: Ask, refusals: Collection[str], *, is_json: bool) -> None:
        self.answers = 0
        self.refused: dict[str, int] = {}
        self._lab = lab
        self._by = by
        self._refusals = refusals
        self._is_json = is_json
        self._copy = TopicCopy()
        self._why: SluiceError | None = None
        self._last = Watermark(0, 0, {})
        self._lock = Lock()

    def ask(self, _round: int = 0) -> None:
        """Query once, from any thread."""
        with self._lock:
            self._ask()

    def _ask(self) -> None:
        try:
            told = self._checked()
        except SluiceError as error:
            if not (error.is_retryable or error.code in self._refusals):
                raise
            self.refused[error.code] = self.refused.get(error.code, 0) + 1
            self._why = error
            time.sleep(_PAUSE_SECONDS)
            return
        self.answers += 1
        assert (told.generation, told.rollbacks) >= (self._last.generation, self._last.rollbacks), told
        assert not told.is_of(self._last) or told.reaches(self._last.ends), f"{told} after {self._last}"
        self._last = told

    def expect_less(self) -> None:
        """Accept the next answer as another server's first, after the current one."""
        with self._lock:
            self._last = Watermark(0, 0, {})

    def ask_for_all(self) -> None:
        """Wait until an answer has all of the topic."""
        deadline = time.monotonic() + _AS_FRESH_SECONDS
        with self._lab.connections() as connections:
            ends = connections.admin.source_state(self._lab.pipeline.topic).end
        while not (self._last.reaches(ends) and self._last.ends.keys() == ends.keys()):
            assert time.monotonic() < deadline, (self._last, ends, self._why)
            self.ask()

    def _checked(self) -> Watermark:
        return checked(self._lab, by=self._by, copy=self._copy, is_json=self._is_json)


@contextmanager
def query_throughout(
    lab: Lab, *, by: Ask | None = None, refusals: Collection[str] = (), is_json: bool = True
) -> Iterator[tuple[Asker, WorkLoop]]:
    """Query while the block runs, and finally for everything, by a follower or ``by``.

    Answers may be refused with ``refusals`` and with what trying again mends, but not in the end.
    """
    with nullcontext(by) if by else _following(lab) as asked:
        asker = Asker(lab, asked, refusals, is_json=is_json)
        with looping(asker.ask) as loop:
            yield asker, loop
        asker.ask_for_all()


@contextmanager
def _following(lab: Lab) -> Iterator[Ask]:
    with lab.connections() as connections:
        folder = lab.path.parent / "serve"
        follower = Follower([lab.pipeline], connections, folder=folder, memory_bytes=_MEMORY_BYTES)
        follower.start()
        try:
            yield partial(ask, lab, pin=partial(follower.pin, PIPELINE, patience_seconds=_AS_FRESH_SECONDS))
        finally:
            follower.close()
