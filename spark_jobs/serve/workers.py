"""Asks queries of processes that are killed when they take longer than they may, or nobody waits for them."""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.table import Table

from spark_jobs.hot.mapped import places
from spark_jobs.protocol.errors import ConfigError, RetryableError, error_from_json
from spark_jobs.query import worker
from spark_jobs.query.ended import out_of_time
from spark_jobs.query.query import Answer, Asked
from spark_jobs.query.worker import TOLD, Work

if TYPE_CHECKING:
    from spark_jobs.hot.prefix import Prefix
    from spark_jobs.hot.seam import Seam

_LOOK_SECONDS = 0.1
_LATE_SECONDS = 0.25  # in which a worker may still say itself that its time is over
_ROOT = Path(__file__).parents[2]
_numbers = count(1)
# A fork copies no other: what has one at once are NumPy's and Arrow's memory.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}


class _Starter:
    """The process that workers are forked from, of which a process has one; and the folder of its files."""

    _own: _Starter | None = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sluice-serve-"))
        self._control, theirs = socket.socketpair()
        run = f"from {worker.__name__} import main; main()"
        command = [sys.executable, "-c", run, str(theirs.fileno()), str(self.folder)]
        environment = {**os.environ, **_ONE_THREAD, "PYTHONPATH": str(_ROOT)}
        self.process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        self._control.recv(1)  # it has read its libraries, or died

    @classmethod
    def get(cls) -> _Starter:
        """Return it; one that died is replaced."""
        with cls._lock:
            if cls._own is None or cls._own.process.poll() is not None:
                cls._own = cls()
            return cls._own

    def start(self, number: int, memory_bytes: int) -> Connection:
        """Have a worker, which answers as soon as it is there."""
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            socket.send_fds(self._control, [TOLD.pack(number, memory_bytes)], [theirs.fileno()])
        return Connection(ours.detach())

    def kill(self, number: int) -> None:
        """End it, wherever it is."""
        with self._lock, suppress(OSError):
            self._control.sendall(TOLD.pack(number, 0))


class _Worker:
    """One process, and which state of the lake it was told of each pipeline."""

    def __init__(self, memory_bytes: int) -> None:
        self._starter = _Starter.get()
        self._number = next(_numbers)
        self.connection = self._starter.start(self._number, memory_bytes)
        self.lakes: dict[str, int] = {}

    @property
    def folder(self) -> Path:
        """Where files lie that it is to map."""
        return self._starter.folder

    def kill(self) -> None:
        self._starter.kill(self._number)
        self.connection.close()


class Workers:
    """So many processes, which share ``memory_bytes``; each answers one query at a time."""

    def __init__(self, most: int, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes // most
        self._lakes: dict[str, tuple[Seam, int, bytes]] = {}
        self._closed = threading.Event()
        # The last used is the first to be used again; one that was only just started is the last.
        self._idle = deque(_Worker(self._memory_bytes) for _ in range(most))

    def close(self) -> None:
        """End all queries, and the processes."""
        self._closed.set()
        with suppress(IndexError):
            while True:
                self._idle.pop().kill()

    @contextmanager
    def asked(
        self, asked: Asked, prefix: Prefix, until: float, is_left: Callable[[], bool]
    ) -> Iterator[Answer]:
        """Answer over the prefix until the moment; whoever leaves the block earlier ends the query.

        Raises as ``query``, also while rows are taken.
        """
        one = self._one(asked)
        taken = _Taken(one, asked, until, lambda: self._closed.is_set() or is_left())
        try:
            taken.ask(self._work(one, asked, prefix, until))
            with pa.ipc.open_stream(taken) as reader:
                yield Answer(reader.schema, taken.batches(reader))
        finally:
            if taken.is_reusable:
                self._idle.append(one)
            else:
                one.kill()
                self._idle.appendleft(_Worker(self._memory_bytes))
            if self._closed.is_set():
                self.close()

    def _one(self, asked: Asked) -> _Worker:
        """Return one that has nothing to do, and lives."""
        try:
            one = self._idle.pop()
        except IndexError:  # whoever asks has a slot: there are none because they were closed
            raise out_of_time(asked.pipeline) from None
        if not one.connection.poll():  # which would say that its process is gone, and no more
            return one
        one.kill()
        return _Worker(self._memory_bytes)

    def _work(self, one: _Worker, asked: Asked, prefix: Prefix, until: float) -> Work:
        name = asked.pipeline.name
        number, lake = self._lake(name, prefix.seam)
        is_known, one.lakes[name] = one.lakes.get(name) == number, number
        segments = [segment for share in prefix.shares for segment in share.segments]
        placed = iter(places(segments, one.folder))
        shares = [
            (replace(share, segments=()), [next(placed) for _ in share.segments]) for share in prefix.shares
        ]
        epoch = segments[0].epoch if segments else None
        told = None if is_known else lake
        left = until - time.monotonic()
        return Work(asked, epoch, number, told, shares, prefix.age_ms, prefix.is_cut, left)

    def _lake(self, name: str, seam: Seam) -> tuple[int, bytes]:
        known = self._lakes.get(name)
        if known is None or known[0] is not seam:
            known = self._lakes[name] = seam, next(_numbers), pickle.dumps(_alone(seam))
        return known[1:]


class _Taken:
    """What a worker answers, as a file for Arrow to read; an error of the worker's is raised in reading."""

    closed = False

    def __init__(self, one: _Worker, asked: Asked, until: float, is_left: Callable[[], bool]) -> None:
        self._one, self._asked, self._until, self._is_left = one, asked, until, is_left
        self._part = memoryview(b"")
        self._is_whole = self.is_reusable = False

    def ask(self, work: Work) -> None:
        try:
            self._one.connection.send(work)
        except OSError as error:
            raise self._died() from error

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, fewer only at the end."""
        parts = []
        while size and (self._part or self._has_more()):
            parts.append(self._part[:size])
            self._part = self._part[size:]
            size -= len(parts[-1])
        return b"".join(parts)

    def batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        """The rows, and behind the last one the worker's word that it was that."""
        yield from reader
        self._has_more()

    def _has_more(self) -> bool:
        while not (self._is_whole or self._one.connection.poll(_LOOK_SECONDS)):
            if time.monotonic() > self._until + _LATE_SECONDS or self._is_left():
                raise out_of_time(self._asked.pipeline)
        if self._is_whole:
            return False
        try:
            told = self._one.connection.recv_bytes()
        except (EOFError, OSError) as error:
            raise self._died() from error
        kind, said = told[:1], memoryview(told)[1:]
        self._is_whole = kind != worker.ROWS
        if self._is_whole:
            self.is_reusable, said = bool(said[0]), said[1:]
        if kind == worker.ERROR:
            raise error_from_json(json.loads(bytes(said)))
        if kind == worker.UNEXPECTED:
            raise RuntimeError(str(said, "utf-8"))
        self._part = said
        return not self._is_whole

    def _died(self) -> ConfigError | RetryableError:
        if self._is_left() or time.monotonic() > self._until:
            return out_of_time(self._asked.pipeline)
        return ConfigError(
            "the query was ended: it needed more memory than there is, or broke what runs it",
            code="query-too-large",
            hint="Ask for less at once, or raise `serve.query_memory`, of which each query has a part.",
            pipeline=self._asked.pipeline.name,
        )


def _alone(seam: Seam) -> Seam:
    """Return it as it can be sent: its tables as they are, without the catalog's connections."""
    letters = None if seam.dead_letters is None else _without_catalog(seam.dead_letters)
    routed = {name: _without_catalog(table) for name, table in seam.routed.items()}
    return replace(seam, table=_without_catalog(seam.table), dead_letters=letters, routed=routed)


def _without_catalog(table: Table) -> Table:
    catalog: Any = None
    return Table(table.name(), table.metadata, table.metadata_location, table.io, catalog)
