"""Record of the process that runs a state folder's servers: one ``up`` or ``demo`` at a time.

The process locks its record while it lives. The kernel releases the lock when it ends, so a record without a
lock is stale, and a reused process id is never signalled.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from spark_jobs.protocol.errors import SluiceError, fault


@dataclass(frozen=True, slots=True)
class UpRecord:
    """Process id, command and start time (epoch ms) of the process that holds the state folder."""

    pid: int
    command: str
    since_ms: int


@contextmanager
def hold(home: str, command: str) -> Iterator[None]:
    """Hold the state folder within the block. Raises ``ConfigError`` if another process holds it."""
    file = _file(home)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+", encoding="utf-8") as record:
        try:
            fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise already_running(read_up(home), home) from None
        record.truncate(0)
        record.write(json.dumps(asdict(UpRecord(os.getpid(), command, int(time.time() * 1000)))))
        record.flush()
        try:
            yield
        finally:
            record.truncate(0)


def read_up(home: str) -> UpRecord | None:
    """Return the process that holds the state folder, or None."""
    try:
        with _file(home).open(encoding="utf-8") as record:
            try:
                fcntl.flock(record, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                text = record.read()
                return UpRecord(**json.loads(text)) if text else None
    except FileNotFoundError:
        return None
    return None


def already_running(record: UpRecord | None, home: str) -> SluiceError:
    """Return the error for a command that needs the servers stopped."""
    who = f"`{record.command}` (process {record.pid})" if record else "another command"
    return fault("already-up", who=who, home=home)


def _file(home: str) -> Path:
    return Path(home) / "run" / "up.lock"
