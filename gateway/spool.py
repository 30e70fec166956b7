"""The spool: batches on the gateway's disk while Kafka does not answer; ordered, bounded and durable."""

from __future__ import annotations

import fcntl
import sqlite3
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from gateway.messages import Batch, Event
from gateway.tokens import WINDOW_BYTES
from spark_jobs.config.gateway import SPOOLED_BYTES
from spark_jobs.protocol.errors import fault
from spark_jobs.storage.state_files import make_private

_TABLE = """CREATE TABLE IF NOT EXISTS batches (
  number INTEGER PRIMARY KEY, topic TEXT NOT NULL, slot INTEGER NOT NULL, source TEXT NOT NULL,
  sequence INTEGER NOT NULL, batch_id TEXT, events BLOB NOT NULL,
  bytes INTEGER NOT NULL, at_ms INTEGER NOT NULL, digest BLOB
)"""
# For a spool of an older gateway, whose batches have no digest.
_ADD_DIGEST = "ALTER TABLE batches ADD COLUMN digest BLOB"
_SIZE = f"SELECT count(*), coalesce(sum(length(events) + {SPOOLED_BYTES}), 0) FROM batches"  # noqa: S608
_MOST_AT_ONCE = 200


class SpoolFullError(Exception):
    """Raised if the spool has no space for another batch."""


class Spooled(NamedTuple):
    """A batch in the spool, with its stored size."""

    number: int
    batch: Batch
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class SpoolSize:
    """The size of the spool; ``oldest_ms`` is the arrival of the oldest batch, None if it is empty."""

    batches: int
    bytes: int
    oldest_ms: int | None

    @property
    def oldest_age_ms(self) -> int | None:
        """The age of the oldest batch."""
        return None if self.oldest_ms is None else max(0, _now_ms() - self.oldest_ms)


class Spool:
    """The spool file of one process, used by the threads of all slots; other processes may read it."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        """Open or create the file. Raises ``RetryableError``: ``gateway-spool``."""
        self._path = path
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        make_private(path.parent)
        with ExitStack() as opened:
            try:
                # A second process would send the same batches in an order of its own.
                lock = path.with_name(f"{path.name}.lock")
                lock.touch(0o600)
                own = opened.enter_context(lock.open("a"))
                fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._file = opened.enter_context(closing(sqlite3.connect(path, check_same_thread=False)))
                path.chmod(0o600)
                self._file.execute("PRAGMA journal_mode=WAL")
                self._file.execute("PRAGMA synchronous=FULL")
                self._file.execute(_TABLE)
                columns = self._file.execute("PRAGMA table_info(batches)").fetchall()
                if all(name != "digest" for _, name, *_ in columns):
                    self._file.execute(_ADD_DIGEST)
                self._batches, self._bytes = self._file.execute(_SIZE).fetchone()
            except (OSError, sqlite3.Error) as error:
                raise fault("gateway-spool", why=error, path=self._path) from error
            self._opened = opened.pop_all()

    def put(self, topic: str, slot: int, batches: Sequence[Batch]) -> None:
        """Add batches at the end; they are on the disk when this returns.

        Raises ``SpoolFullError`` and ``RetryableError`` (``gateway-spool``): then none of them is stored.
        """
        rows = [_row(topic, slot, each) for each in batches]
        size = sum(len(row[5]) + SPOOLED_BYTES for row in rows)
        self._change(
            "INSERT INTO batches (topic, slot, source, sequence, batch_id, events, bytes, at_ms, digest)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows,
            size,
        )

    def first(self, topic: str, slot: int, most_bytes: int = WINDOW_BYTES) -> list[Spooled]:
        """Return the slot's oldest batches: up to 200 and ``most_bytes``, but at least one."""
        query = (
            "SELECT number, events, source, bytes, sequence, batch_id FROM batches"
            " WHERE topic = ? AND slot = ? ORDER BY number LIMIT ?"
        )
        rows, size = list[tuple[Any, ...]](), 0
        with self._lock:
            for row in self._file.execute(query, (topic, slot, _MOST_AT_ONCE)):
                size += row[3]
                if rows and size > most_bytes:
                    break
                rows.append(row)
        return [
            Spooled(row[0], Batch(row[2], _events(row[1]), *row[3:]), len(row[1]) + SPOOLED_BYTES)
            for row in rows
        ]

    def known(self, topic: str, slot: int) -> Iterator[Batch]:
        """Yield all of the slot's batches, oldest first, without their events."""
        query = (
            "SELECT source, bytes, sequence, batch_id, digest, CASE WHEN digest IS NULL THEN events END"
            " FROM batches WHERE topic = ? AND slot = ? ORDER BY number"
        )
        with self._lock:
            for source, size, sequence, batch_id, digest, events in self._file.execute(query, (topic, slot)):
                loaded = _events(events) if events else ()
                yield replace(Batch(source, loaded, size, sequence, batch_id, digest or b""), events=())

    def ends(self, topic: str, slot: int) -> dict[str, int]:
        """Return the last sequence number of each source with batches here."""
        query = "SELECT source, max(sequence) FROM batches WHERE topic = ? AND slot = ? GROUP BY source"
        with self._lock:
            return dict(self._file.execute(query, (topic, slot)).fetchall())

    def drop(self, spooled: Sequence[Spooled]) -> None:
        """Remove batches that are in Kafka, or that Kafka rejects."""
        size = sum(each.stored_bytes for each in spooled)
        self._change("DELETE FROM batches WHERE number = ?", [each[:1] for each in spooled], -size)

    def slots(self) -> set[tuple[str, int]]:
        """Return the topics and slots with batches here."""
        with self._lock:
            return set(self._file.execute("SELECT DISTINCT topic, slot FROM batches").fetchall())

    def size(self) -> SpoolSize:
        """Return the size of the spool."""
        with self._lock:
            oldest = self._file.execute("SELECT at_ms FROM batches ORDER BY number LIMIT 1").fetchone()
            return SpoolSize(self._batches, self._bytes, oldest and oldest[0])

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._opened.close()

    def _change(self, statement: str, rows: Sequence[tuple[Any, ...]], size: int) -> None:
        """Execute the statement for all rows or none; ``size`` is the change in bytes."""
        with self._lock:
            if size > 0 and self._bytes + size > self._max_bytes:
                raise SpoolFullError
            try:
                with self._file:
                    self._file.executemany(statement, rows)
            except sqlite3.Error as error:
                raise fault("gateway-spool", why=error, path=self._path) from error
            self._batches += len(rows) if size > 0 else -len(rows)
            self._bytes += size


def _row(topic: str, slot: int, batch: Batch) -> tuple[Any, ...]:
    events = orjson.dumps([[_text(event.key), _text(event.value), event.id] for event in batch.events])
    return (
        *(topic, slot, batch.source, batch.sequence, batch.id, events),
        *(batch.size_bytes, _now_ms(), batch.digest),
    )


def _events(text: bytes) -> tuple[Event, ...]:
    return tuple(Event(_bytes(key), _bytes(value), event_id) for key, value, event_id in orjson.loads(text))


def _now_ms() -> int:
    return round(time.time() * 1000)


def _text(value: bytes | None) -> str | None:
    return None if value is None else b64encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
