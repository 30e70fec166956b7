"""Who runs the servers of a state folder: one ``up`` or ``demo`` at a time, found and stopped from elsewhere.

The holder keeps a lock on its record for as long as it lives. The kernel releases it however the holder ends,
so a record without its lock is history, and a pid that somebody else has since is never signalled.
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
    """The process that holds the state folder, the command it is, and since when (milliseconds, epoch)."""

    pid: int
    command: str
    since_ms: int


@contextmanager
def hold(home: str, command: str) -> Iterator[None]:
    """Be the one that runs this state folder's servers; ``ConfigError`` names the one that already does."""
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
    """Return the process that holds the state folder now; None when none does."""
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
    """Return the refusal to do something while servers run."""
    who = f"`{record.command}` (process {record.pid})" if record else "another command"
    return fault("already-up", who=who, home=home)


def _file(home: str) -> Path:
    return Path(home) / "run" / "up.lock"
