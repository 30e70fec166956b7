"""Use of the Spark server of ``up``, which sleeps while nothing uses it.

A process that uses it shares a lock until it ends, however it ends; who holds the lock alone may stop it.
A process that waits with its share asks for a start: one, however many wait.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from spark_jobs.connections.endpoints import read_endpoints
from spark_jobs.protocol.errors import fault

START_SECONDS = 180.0
_LOOK_SECONDS = 0.1
_TELL_SECONDS = 5.0

_logger = logging.getLogger(__name__)
_used: dict[Path, IO[bytes]] = {}


def use_spark(home: str) -> None:
    """Keep the server awake until this process ends; log it if it has to be started first.

    Waits while the server is being stopped, not for its start.
    """
    file = _file(home)
    if file not in _used:
        _used[file] = _open(file)
        fcntl.flock(_used[file], fcntl.LOCK_SH)
        os.utime(file)
        if read_endpoints(home).spark_asleep:
            _logger.info("Spark is asleep and is started for this work")


def wait_for_spark(home: str) -> None:
    """Wait until the server is awake. Raises ``RetryableError`` (``spark-away``)."""
    began = told = time.monotonic()
    while read_endpoints(home).spark_asleep:
        now = time.monotonic()
        if now - began > START_SECONDS:
            raise fault("spark-away", why=f"it was asleep and has not started in {START_SECONDS:.0f} s")
        if now - told >= _TELL_SECONDS:
            told = now
            _logger.info("Spark has been starting for %.0f s", now - began)
        time.sleep(_LOOK_SECONDS)


@contextmanager
def unused_seconds(home: str) -> Iterator[float | None]:
    """Yield the seconds since the last use, and keep users out within the block; None while it is used."""
    file = _file(home)
    with _open(file) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.utime(file)
            yield None
        else:
            yield time.time() - file.stat().st_mtime


def note_use(home: str) -> None:
    """Count the time without use from now."""
    _open(_file(home)).close()
    os.utime(_file(home))


def _open(file: Path) -> IO[bytes]:
    file.parent.mkdir(parents=True, exist_ok=True)
    return file.open("ab")


def _file(home: str) -> Path:
    return Path(home).absolute() / "run" / "spark.lock"
