"""A follower that is asked again and again meanwhile, each answer held against the topic."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from prove.lab.fresh_oracle import TopicCopy, checked
from prove.lab.pipeline_lab import PIPELINE
from prove.lab.work_loop import WorkLoop, looping
from spark_jobs.hot.follower import Follower
from spark_jobs.hot.watermark import Watermark
from spark_jobs.protocol.errors import SluiceError

if TYPE_CHECKING:
    from prove.lab.pipeline_lab import Lab

_MEMORY_BYTES = 1 << 40
_AS_FRESH_SECONDS = 60.0
_PAUSE_SECONDS = 0.05


class Asker:
    """``answers`` counts those that were exact, ``refused`` by code those that were none.

    Of the answers of one epoch none has less than the one before, and epochs do not go back.
    """

    def __init__(self, lab: Lab, follower: Follower, refusals: Collection[str], *, is_json: bool) -> None:
        self.answers = 0
        self.refused: dict[str, int] = {}
        self._lab = lab
        self._follower = follower
        self._refusals = refusals
        self._is_json = is_json
        self._copy = TopicCopy()
        self._last = Watermark(0, 0, {})
        self._lock = Lock()

    def ask(self, _round: int = 0) -> None:
        """Ask once; from any thread."""
        with self._lock:
            self._ask()

    def _ask(self) -> None:
        try:
            told = self._checked()
        except SluiceError as error:
            if not (error.is_retryable or error.code in self._refusals):
                raise
            self.refused[error.code] = self.refused.get(error.code, 0) + 1
            time.sleep(_PAUSE_SECONDS)
            return
        self.answers += 1
        assert (told.generation, told.rollbacks) >= (self._last.generation, self._last.rollbacks), told
        assert not told.is_of(self._last) or told.reaches(self._last.ends), f"{told} after {self._last}"
        self._last = told

    def ask_for_all(self) -> None:
        """Wait until an answer has all that the topic has."""
        deadline = time.monotonic() + _AS_FRESH_SECONDS
        with self._lab.connections() as connections:
            ends = connections.admin.source_state(self._lab.pipeline.topic).end
        while not (self._last.reaches(ends) and self._last.ends.keys() == ends.keys()):
            assert time.monotonic() < deadline, (self._last, ends, self._follower.statuses())
            self.ask()

    def _checked(self) -> Watermark:
        pin = partial(self._follower.pin, PIPELINE, patience_seconds=_AS_FRESH_SECONDS)
        return checked(self._lab, pin=pin, copy=self._copy, is_json=self._is_json)


@contextmanager
def asked_throughout(
    lab: Lab, *, refusals: Collection[str] = (), is_json: bool = True
) -> Iterator[tuple[Asker, WorkLoop]]:
    """Follow the lab's pipeline and ask while the block runs, and in the end for all that there is.

    Answers may be refused with ``refusals`` and with what trying again mends, but not in the end.
    """
    with lab.connections() as connections:
        folder = lab.path.parent / "serve"
        follower = Follower([lab.pipeline], connections, folder=folder, memory_bytes=_MEMORY_BYTES)
        asker = Asker(lab, follower, refusals, is_json=is_json)
        follower.start()
        try:
            with looping(asker.ask) as loop:
                yield asker, loop
            asker.ask_for_all()
        finally:
            follower.close()
