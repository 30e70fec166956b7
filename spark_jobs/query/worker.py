"""The worker processes that answer ``serve``'s queries, one query at a time over a pipe; they may be killed.

They are forked by a starter process that was started clean, has loaded its libraries and has one thread. It
ends with the process that started it, however that died, and removes the workers and their files.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import resource
import shutil
import signal
import socket
import struct
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_jobs.hot.mapped import Maps, Place
from spark_jobs.hot.prefix import Prefix, Seam
from spark_jobs.hot.segment import Share
from spark_jobs.hot.watermark import Epoch
from spark_jobs.protocol.errors import SluiceError, error_to_json
from spark_jobs.query.query import Engine, SqlQuery, answer_query

# A request to the starter: a worker's number and memory; with a socket it starts the worker, else kills it.
REQUEST = struct.Struct("!QQ")
TAKEN = b"T"  # sent when a query has been read
ROWS, END = b"R", b"."  # the last byte of a message, so that Arrow data is aligned at the beginning
_IDLE_SECONDS = 1.0
_BEYOND_SECONDS = 2  # a worker ends itself this long after its query's time
_KEPT_BYTES = 48 << 20
_BEYOND_BYTES = 256 << 20  # memory of libraries, in addition to a query's
_THREAD_BYTES = 16 << 20  # and each of its threads, a stack and what it allocates for itself


@dataclass(frozen=True, slots=True)
class Work:
    """A query and its records: a state of the lake by its number, and parts of the hot tail.

    ``lake`` is that state, pickled, unless the worker has it already. ``shares`` are those of the answer,
    without segments, each with the places of its segments.
    """

    asked: SqlQuery
    epoch: Epoch | None
    number: int
    lake: bytes | None
    shares: Sequence[tuple[Share, Sequence[Place]]]
    age_ms: int
    is_cut: bool
    seconds: float


class _Worker:
    def __init__(self, connection: Connection, memory_bytes: int) -> None:
        self._connection = connection
        self._engine = Engine(memory_bytes)
        self._maps = Maps()
        self._lakes: dict[str, tuple[int, Seam]] = {}
        self._began_bytes = _own_bytes()

    def run(self) -> None:
        """Answer queries until the pipe ends."""
        with suppress(EOFError, ConnectionError):
            while True:
                while not self._connection.poll(_IDLE_SECONDS):
                    self._maps.clear()  # else old segments would stay mapped
                work: Work = self._connection.recv()
                self._connection.send_bytes(TAKEN)
                signal.setitimer(signal.ITIMER_REAL, work.seconds + _BEYOND_SECONDS)
                self._answer(work)
                signal.setitimer(signal.ITIMER_REAL, 0)

    def _answer(self, work: Work) -> None:
        ended: dict[str, Any] = {"error": None, "unexpected": None}
        try:
            prefix = self._prefix(work)
            with answer_query(
                work.asked, prefix.seam, self._engine, prefix=prefix, seconds=work.seconds
            ) as answer:
                self._send(answer.schema)
                for batch in answer.batches:
                    self._send(answer.schema, batch)
        except SluiceError as error:
            ended["error"] = error_to_json(error)
        except (EOFError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001  (sent to the caller)
            ended["unexpected"] = f"{type(error).__name__}: {error}"
        # Whether it takes no more memory than before, or is to go.
        ended["is_small"] = _own_bytes() < self._began_bytes + _KEPT_BYTES
        self._connection.send_bytes(json.dumps(ended).encode() + END)

    def _send(self, schema: pa.Schema, *batches: pa.RecordBatch) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        sink.write(ROWS)
        self._connection.send_bytes(sink.getvalue())

    def _prefix(self, work: Work) -> Prefix:
        name = work.asked.pipeline.name
        if work.lake is not None:
            self._lakes[name] = work.number, pickle.loads(work.lake)  # noqa: S301  (of who started this)
        flat = [(share.partition, place) for share, places in work.shares for place in places]
        segments = iter(self._maps.segments(flat, work.epoch) if work.epoch else ())
        shares = tuple(
            Share(s.partition, s.start, s.seam, s.end, tuple(next(segments) for _ in places))
            for s, places in work.shares
        )
        return Prefix(self._lakes[name][1], shares, work.age_ms, work.is_cut)


def _run(descriptor: int, folder: Path, memory_bytes: int) -> None:
    try:
        _answer_all(descriptor, folder, memory_bytes)
    finally:
        os._exit(0)  # nothing that the other one does when it ends


def _answer_all(descriptor: int, folder: Path, memory_bytes: int) -> None:
    folder.mkdir()
    tempfile.tempdir = str(folder)
    if data_bytes := _statm(5):
        most = data_bytes + memory_bytes + _BEYOND_BYTES + (os.cpu_count() or 1) * _THREAD_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    _Worker(Connection(descriptor), memory_bytes).run()


def _own_bytes() -> int:
    """Return the process's memory without mapped files; 0 if the system does not report it."""
    return _statm(1) - _statm(2)


def _statm(number: int) -> int:
    file = Path("/proc/self/statm")
    return int(file.read_text("ascii").split()[number]) * resource.getpagesize() if file.exists() else 0


def _serve(control: socket.socket, folder: Path) -> None:
    """Start and kill workers on request, until the requesting process ends.

    A worker that cannot be started looks like a dead one: its pipe ends.
    """
    children: dict[int, int] = {}
    while len((received := socket.recv_fds(control, REQUEST.size, 1, socket.MSG_WAITALL))[0]) == REQUEST.size:
        number, memory_bytes = REQUEST.unpack(received[0])
        own = folder / str(number)
        if received[1]:
            with suppress(OSError):
                children[number] = os.fork()
                if not children[number]:
                    control.close()
                    _run(received[1][0], own, memory_bytes)
            os.close(received[1][0])
        elif pid := children.pop(number, None):
            _end(pid)
            shutil.rmtree(own, ignore_errors=True)
    for pid in children.values():
        _end(pid)


def _end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)  # it is this process's child until it was waited for
    os.waitpid(pid, 0)


def main() -> None:
    """Run the starter process; the arguments are its socket and its folder."""
    for each in (signal.SIGINT, signal.SIGTERM):  # sent to all of a service at once: it ends with its server
        signal.signal(each, signal.SIG_IGN)
    control, folder = socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2])
    gc.freeze()
    try:
        control.sendall(b"!")
        _serve(control, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)  # libraries would print what they leave behind
