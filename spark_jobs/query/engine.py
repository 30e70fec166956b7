"""A DuckDB that reads what it is handed and nothing else, for one query after the other or some at once.

It is empty and shut in: it opens no file and no connection and loads no extension. What it needs beyond its
memory lies in a temporary folder until it is closed. Opening one takes ten times as long as a small query: so
all queries of a process share one, each with a catalog and temporary views of its own.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING

import duckdb

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY_BYTES = 1_000_000_000
_AGAIN_SECONDS = 0.05


class Engine:
    """All its queries together may use ``memory_bytes``. Safe to share by threads."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._closing = ExitStack()
        folder = self._closing.enter_context(tempfile.TemporaryDirectory(prefix="sluice-query-"))
        self._whole = self._closing.enter_context(duckdb.connect(config=_shut_in(folder, memory_bytes)))
        self._whole.execute("SET GLOBAL TimeZone = 'UTC'; SET GLOBAL python_enable_replacements = false")
        self._whole.execute("SET lock_configuration = true")
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._ends: set[Callable[[], None]] = set()

    def close(self) -> None:
        """End what runs, and give all memory back."""
        self.end_all()
        self._closing.close()

    @contextmanager
    def connection(self, seconds: float | None) -> Iterator[tuple[DuckDBPyConnection, threading.Event]]:
        """Give a query's own connection, of which nothing is left behind.

        After so many seconds it breaks off, wherever it is, and the event says that it did; None is never,
        but for ``end_all``.
        """
        with self._lock:
            own, name = self._whole.cursor(), f"query_{next(self._numbers)}"
        with own:
            own.execute(f"ATTACH ':memory:' AS {name}; USE {name}")
            try:
                with self._kept(own, seconds) as is_over:
                    yield own, is_over
            finally:
                with suppress(duckdb.Error):
                    own.execute("ROLLBACK")  # within a transaction a catalog stays
                with suppress(duckdb.Error):
                    own.execute(f"USE memory; DETACH {name}")

    def end_all(self) -> None:
        """Have every query break off."""
        for end in tuple(self._ends):
            end()

    @contextmanager
    def _kept(self, own: DuckDBPyConnection, seconds: float | None) -> Iterator[threading.Event]:
        is_over, is_done, is_woken = threading.Event(), threading.Event(), threading.Event()

        def end() -> None:
            is_over.set()
            is_woken.set()

        def watch() -> None:
            if not is_woken.wait(seconds):
                is_over.set()
            # DuckDB forgets one that comes before a statement has begun.
            while is_over.is_set() and not is_done.is_set():
                with suppress(duckdb.Error):
                    own.interrupt()
                is_done.wait(_AGAIN_SECONDS)

        watching = threading.Thread(target=watch, name="query-time", daemon=True)
        self._ends.add(end)
        watching.start()
        try:
            yield is_over
        finally:
            self._ends.discard(end)
            is_done.set()
            is_woken.set()
            watching.join()  # a connection that is closed must not be interrupted


def _shut_in(folder: str, memory_bytes: int) -> dict[str, str | bool | int | float | list[str]]:
    return {
        "enable_external_access": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "memory_limit": f"{memory_bytes}B",
        "temp_directory": folder,
    }
