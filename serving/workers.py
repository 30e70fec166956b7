"""Runs queries in worker processes, which are killed at a timeout or if the client disconnects."""

from __future__ import annotations

import heapq
import json
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.hot.mapped import places
from spark_jobs.hot.prefix import Prefix, Seam
from spark_jobs.protocol.errors import error_from_json, fault
from spark_jobs.query import worker
from spark_jobs.query.query import Answer, SqlQuery
from spark_jobs.query.worker import REQUEST, Work

_LOOK_SECONDS = 0.1
_LATE_SECONDS = 0.25  # the time for a worker to report its own timeout
_START_SECONDS = 20.0
_ENDED = "its process ended, probably because it needed more memory than available"
_ROOT = Path(__file__).parents[__name__.count(".")]
_numbers = count(1)
# A fork copies only the calling thread, and NumPy's and Arrow's allocators would start others.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Return the folder of all files; this process deletes it, or the starter if this one is killed."""
    return tempfile.TemporaryDirectory(prefix="sluice-serve-", ignore_cleanup_errors=True)


class _Starter:
    """The process that workers are forked from; one per process."""

    _own: _Starter | None = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        self.folder = Path(_folder().name)
        self._control, theirs = socket.socketpair()
        self._control.settimeout(_START_SECONDS)
        run = f"from {worker.__name__} import main; main()"
        command = [sys.executable, "-c", run, str(theirs.fileno()), str(self.folder)]
        environment = {**os.environ, **_ONE_THREAD, "PYTHONPATH": str(_ROOT)}
        with theirs:
            self.process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        if not self._control.recv(1):  # it has read its libraries
            raise OSError("the process that starts the others ended")

    @classmethod
    def get(cls) -> _Starter:
        """Return the starter; a dead one is replaced."""
        with cls._lock:
            if cls._own is None or cls._own.process.poll() is not None:
                cls._own = cls()
            return cls._own

    def start(self, number: int, memory_bytes: int) -> Connection:
        """Start a worker and return its connection."""
        self.folder.mkdir(0o700, exist_ok=True)  # what tidies up temporary files takes empty ones
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            socket.send_fds(self._control, [REQUEST.pack(number, memory_bytes)], [theirs.fileno()])
        return Connection(ours.detach())

    def kill(self, number: int) -> None:
        """Kill a worker."""
        with self._lock, suppress(OSError):
            self._control.sendall(REQUEST.pack(number, 0))


class _Worker:
    """A slot for one query at a time; its process is started on demand."""

    def __init__(self, memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self.is_done = False  # with its last query, and no larger by that
        self.lakes: dict[str, int] = {}  # the number of the state that it has, by pipeline
        self._connection: Connection | None = None

    def __lt__(self, other: _Worker) -> bool:
        return self.memory_bytes > other.memory_bytes

    def start(self) -> Path:
        """Start a process if none lives. Return the folder of files that it maps; raises ``OSError``."""
        if self._connection and self._connection.poll():  # readable only if the process has ended
            self.kill()
        if not self._connection:
            self._starter, self._number, self.lakes = _Starter.get(), next(_numbers), {}
            self._connection = self._starter.start(self._number, self.memory_bytes)
        self.is_done = False
        return self._starter.folder

    def kill(self) -> None:
        """Kill its process, if it has one."""
        if self._connection:
            self._starter.kill(self._number)
            self._connection.close()
            self._connection = None

    def ask(self, work: Work, until: float, is_left: Callable[[], bool]) -> bool:
        """Return True if its process has accepted the query; a dead process is dropped."""
        if self._connection is None:
            raise AssertionError("it was started")
        try:
            self._connection.send(work)
            return _receive(self._connection, until, is_left, work.asked.pipeline) == worker.TAKEN
        except (EOFError, OSError):
            self.kill()
            return False

    def answers(
        self, pipeline: PipelineConfig, until: float, is_left: Callable[[], bool]
    ) -> Iterator[pa.Table]:
        """Yield tables of rows as they arrive, the first one empty; raise the query's errors."""
        connection = self._connection
        if connection is None:
            raise AssertionError("it was asked")
        try:
            while (received := _receive(connection, until, is_left, pipeline))[-1:] == worker.ROWS:
                yield pa.ipc.open_stream(memoryview(received)[:-1]).read_all()
        except (EOFError, OSError) as error:
            if is_left() or time.monotonic() > until:
                raise fault("query-timeout", pipeline=pipeline.name) from error
            raise fault("query-too-large", why=_ENDED, pipeline=pipeline.name) from error
        result = json.loads(received[:-1])
        self.is_done = result["is_small"]
        if result["error"]:
            raise error_from_json(result["error"])
        if result["unexpected"]:
            raise RuntimeError(result["unexpected"])


def _receive(
    connection: Connection, until: float, is_left: Callable[[], bool], pipeline: PipelineConfig
) -> bytes:
    while not connection.poll(_LOOK_SECONDS):
        if time.monotonic() > until + _LATE_SECONDS or is_left():
            raise fault("query-timeout", pipeline=pipeline.name)
    return connection.recv_bytes()


class Workers:
    """Runs up to ``most`` queries at once, each in a process.

    The first query may use ``memory_bytes``, a second one half of it, a third one a third: eight at once use
    2.7 times ``memory_bytes``.
    """

    def __init__(self, most: int, memory_bytes: int) -> None:
        self._lakes: dict[str, tuple[Seam, int, bytes]] = {}
        self._lock, self._is_closed = threading.Lock(), False
        self._free = [_Worker(memory_bytes // number) for number in range(1, most + 1)]
        _Starter.get()

    def close(self) -> None:
        """End all queries and kill their processes."""
        with self._lock:
            self._is_closed = True
            for one in self._free:
                one.kill()

    @contextmanager
    def answer(
        self, asked: SqlQuery, prefix: Prefix, until: float, is_left: Callable[[], bool]
    ) -> Iterator[Answer]:
        """Answer over the prefix until the deadline; leaving the block earlier ends the query.

        Raises as ``query``, also while rows are read, and ``RetryableError`` (``no-worker``).
        """
        with self._lock:
            one = heapq.heappop(self._free)  # never empty: each caller has a slot
        try:
            tables = self._tables(one, asked, prefix, until, lambda: self._is_closed or is_left())
            schema = next(tables).schema
            yield Answer(schema, (batch for table in tables for batch in table.to_batches()))
        finally:
            with self._lock:
                if self._is_closed or not one.is_done:
                    one.kill()
                heapq.heappush(self._free, one)

    def _tables(
        self, one: _Worker, asked: SqlQuery, prefix: Prefix, until: float, is_left: Callable[[], bool]
    ) -> Iterator[pa.Table]:
        # A process may have died since its last query, without its socket showing it yet.
        for _ in range(2):
            if one.ask(self._work(one, asked, prefix, until), until, is_left):
                return one.answers(asked.pipeline, until, is_left)
        raise fault("query-too-large", why=_ENDED, pipeline=asked.pipeline.name)

    def _work(self, one: _Worker, asked: SqlQuery, prefix: Prefix, until: float) -> Work:
        segments = [segment for share in prefix.shares for segment in share.segments]
        try:
            placed = iter(places(segments, one.start()))
        except OSError as error:
            raise fault("no-worker", why=error, pipeline=asked.pipeline.name) from error
        name = asked.pipeline.name
        number, lake = self._lake(name, prefix.seam)
        new_lake = None if one.lakes.get(name) == number else lake
        one.lakes[name] = number
        shares = [
            (replace(share, segments=()), [next(placed) for _ in share.segments]) for share in prefix.shares
        ]
        epoch = segments[0].epoch if segments else None
        left = until - time.monotonic()
        return Work(asked, epoch, number, new_lake, shares, prefix.age_ms, prefix.is_cut, left)

    def _lake(self, name: str, seam: Seam) -> tuple[int, bytes]:
        known = self._lakes.get(name)
        if known is None or known[0] is not seam:
            known = self._lakes[name] = seam, next(_numbers), pickle.dumps(_alone(seam))
        return known[1:]


def _alone(seam: Seam) -> Seam:
    """Return the state for sending to another process, without the catalog's connections."""
    letters = None if seam.dead_letters is None else _without_catalog(seam.dead_letters)
    routed = {name: _without_catalog(table) for name, table in seam.routed.items()}
    return replace(seam, table=_without_catalog(seam.table), dead_letters=letters, routed=routed)


def _without_catalog(table: Table) -> Table:
    catalog: Any = None
    return Table(table.name(), table.metadata, table.metadata_location, table.io, catalog)
