"""What one query may use, where several are answered by one process, and its end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import duckdb

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY_BYTES = 1_000_000_000


class Limits:
    """For all queries of a process; each may use ``memory_bytes``. Safe to share by threads."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self.memory_bytes = memory_bytes
        self._ends: set[Callable[[], None]] = set()

    @contextmanager
    def kept(self, engine: DuckDBPyConnection, seconds: float | None) -> Iterator[threading.Event]:
        """Have the engine's query break off then, wherever it is; the event says that it did.

        None is never, but for ``end_all``.
        """
        is_over = threading.Event()

        def end() -> None:
            is_over.set()
            with suppress(duckdb.Error):
                engine.interrupt()

        timer = threading.Timer(max(seconds or 0, 0), end)
        timer.daemon = True
        self._ends.add(end)
        if seconds is not None:
            timer.start()
        try:
            yield is_over
        finally:
            self._ends.discard(end)
            timer.cancel()
            if timer.is_alive():  # an engine that is closed must not be interrupted
                timer.join()

    def end_all(self) -> None:
        """Have every query break off."""
        for end in tuple(self._ends):
            end()
