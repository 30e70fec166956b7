"""A DuckDB that reads what it is handed and nothing else, for one query after the other or some at once.

It is empty and shut in: it opens no file and no connection and loads no extension. What it needs beyond its
memory lies in a temporary folder until it is closed. Opening one takes ten times as long as a small query: so
all queries of a process share one, each with a catalog and temporary views of its own. Making these takes as
long as a small query again, so that the next query over the same tables has those of one that has ended.
"""

from __future__ import annotations

import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.errors import SluiceError, fault

MEMORY_BYTES = 1_000_000_000
_AGAIN_SECONDS = 0.05
_MOST_IDLE = 8


@dataclass(slots=True, eq=False)
class _Own:
    """A connection with a catalog of its own, and what was prepared in it for queries with this key."""

    own: DuckDBPyConnection
    name: str
    key: object
    prepared: dict[str, Any] = field(default_factory=dict)

    def close(self) -> None:
        with self.own, suppress(duckdb.Error):
            self.own.execute(f"USE memory; DETACH {self.name}")


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
        self._idle: deque[_Own] = deque()

    def close(self) -> None:
        """End what runs, and give all memory back."""
        self.end_all()
        while self._idle:
            self._idle.popleft().close()
        self._closing.close()

    @contextmanager
    def connection(
        self, seconds: float | None, key: object = None
    ) -> Iterator[tuple[DuckDBPyConnection, threading.Event, dict[str, Any]]]:
        """Give a query's own connection, of which nothing is left behind but what it prepared for a ``key``.

        That is what it puts into the dictionary, and the views and relations which that speaks of: the next
        query with the same object for a key may get them. After so many seconds the query breaks off,
        wherever it is, and the event says that it did; None is never, but for ``end_all``.
        """
        mine = self._idle_of(key) or self._new(key)
        is_kept = False
        try:
            with self._kept(mine.own, seconds) as is_over:
                yield mine.own, is_over, mine.prepared
                is_kept = key is not None and not is_over.is_set()
        finally:
            with suppress(duckdb.Error):
                mine.own.execute("ROLLBACK")  # within a transaction a catalog stays
            if is_kept:
                self._put_back(mine)
            else:
                mine.close()

    def _new(self, key: object) -> _Own:
        with self._lock:
            mine = _Own(self._whole.cursor(), f"query_{next(self._numbers)}", key)
        mine.own.execute(f"ATTACH ':memory:' AS {mine.name}; USE {mine.name}")
        return mine

    def _idle_of(self, key: object) -> _Own | None:
        with self._lock:
            found = next((each for each in self._idle if each.key is key), None)
            if found is not None:
                self._idle.remove(found)
            return found

    def _put_back(self, mine: _Own) -> None:
        with self._lock:
            self._idle.append(mine)
            longest_idle = self._idle.popleft() if len(self._idle) > _MOST_IDLE else None
        if longest_idle is not None:
            longest_idle.close()

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


def files_away(error: Exception, pipeline: PipelineConfig) -> SluiceError:
    """Return the error of a table whose manifests or data files could not be read."""
    return fault("table-unreadable.files", why=first_line(error), owner=pipeline.name, table=pipeline.table)


def first_line(error: Exception) -> str:
    """Return what DuckDB or Arrow says, without where in its code."""
    return str(error).split(". Detail: ")[0].splitlines()[0]
