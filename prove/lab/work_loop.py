"""Repeated work in a thread, while a test does something else to the same table."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FINISH_SECONDS = 300.0


class WorkLoop:
    """Calls ``work`` with each round's number until stopped; ``done`` counts rounds."""

    def __init__(self, work: Callable[[int], None]) -> None:
        self.done = 0
        self._work = work
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run)

    @property
    def is_running(self) -> bool:
        """True if a round is in progress or will come."""
        return self._thread.is_alive()

    def wait_for(self, rounds: int) -> None:
        """Wait until this many rounds are done, or the loop failed."""
        deadline = time.monotonic() + FINISH_SECONDS
        while self.done < rounds and self.is_running:
            assert time.monotonic() < deadline, "the rounds do not end"
            time.sleep(0.05)

    def start(self) -> None:
        """Start, and wait for the first round."""
        self._thread.start()
        self.wait_for(1)

    def finish(self) -> None:
        """Stop after the current round; raises the loop's error."""
        self._stop.set()
        self._thread.join(FINISH_SECONDS)
        if self._failure:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._work(self.done)
                self.done += 1
        except Exception as error:  # noqa: BLE001  (told by the thread that waits)
            self._failure = error


@contextmanager
def looping(work: Callable[[int], None]) -> Iterator[WorkLoop]:
    """Run the work while the block runs."""
    loop = WorkLoop(work)
    loop.start()
    try:
        yield loop
    finally:
        loop.finish()
