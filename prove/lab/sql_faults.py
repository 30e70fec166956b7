"""Faults of SQLite or Postgres in a catalog's commit, in the committing process.

Where the fault can be had, it is had: a lock that another connection holds, a disk without room, a session
that the server ends. COMMIT's own outcomes are made at the driver's call.
"""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import psycopg2
from sqlalchemy import Engine, event
from sqlalchemy.engine.default import DefaultDialect

from prove.lab.small_disk import fill


class SqlFault(StrEnum):
    """A fault of the swap."""

    LOCKED_AT_UPDATE = "locked at UPDATE"
    LOCKED_AT_COMMIT = "locked at COMMIT"
    DISK_FULL = "disk full"
    ENDED_AT_COMMIT = "session ended at COMMIT"
    FAILED_AFTER_COMMIT = "COMMIT lands, its call fails"
    KILLED_AFTER_COMMIT = "killed after COMMIT, before it returned"

    @property
    def has_landed(self) -> bool:
        """True if the database has the commit, whatever the client's answer was."""
        return self in {SqlFault.FAILED_AFTER_COMMIT, SqlFault.KILLED_AFTER_COMMIT}


@dataclass(frozen=True, slots=True)
class SqlFaultAt:
    """Arms the fault at the fail point ``name``, for the next swap.

    ``evidence`` is a file that then says what the database answered. ``filler`` fills the catalog's disk, and
    is the caller's to remove.
    """

    name: str
    fault: SqlFault
    database: Path
    evidence: Path

    @property
    def filler(self) -> Path:
        """Return the file that fills the disk."""
        return self.database.with_name("filler")

    def reach(self, name: str) -> None:
        """Arm the fault the first time this place is reached."""
        if name == self.name and not self.evidence.exists():
            self.evidence.touch()
            event.listen(Engine, "handle_error", self._witness)
            _ARMING[self.fault](self)

    def testify(self, text: str) -> None:
        """Write a line of evidence."""
        with self.evidence.open("a") as evidence:
            evidence.write(f"{text}\n")

    def _witness(self, context: Any) -> None:
        self.testify(str(context.original_exception))


def _hold_lock(armed: SqlFaultAt) -> None:
    holder = sqlite3.connect(armed.database, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    _hold_batch.append(holder)


def _fill_disk(armed: SqlFaultAt) -> None:
    fill(armed.filler)


def _replace_next_commit(armed: SqlFaultAt) -> None:
    commit: Any = DefaultDialect.do_commit

    def do_commit(dialect: Any, connection: Any) -> None:
        DefaultDialect.do_commit = commit  # type: ignore[method-assign]
        if armed.fault is SqlFault.LOCKED_AT_COMMIT:
            raise sqlite3.OperationalError("database is locked")
        if armed.fault is SqlFault.ENDED_AT_COMMIT:
            _end_session(connection.driver_connection)
        commit(dialect, connection)
        if armed.fault is SqlFault.KILLED_AFTER_COMMIT:
            armed.testify("killed")
            os.kill(os.getpid(), signal.SIGKILL)
        raise dialect.dbapi.OperationalError("no answer to COMMIT")

    DefaultDialect.do_commit = do_commit  # type: ignore[method-assign]


def _end_session(connection: Any) -> None:
    """Let Postgres end the session, as at its shutdown."""
    session = connection.info
    with closing(psycopg2.connect(**session.dsn_parameters, password=session.password)) as other:
        other.cursor().execute("SELECT pg_terminate_backend(%s, 10000)", (session.backend_pid,))


_ARMING = {
    SqlFault.LOCKED_AT_UPDATE: _hold_lock,
    SqlFault.LOCKED_AT_COMMIT: _replace_next_commit,
    SqlFault.DISK_FULL: _fill_disk,
    SqlFault.ENDED_AT_COMMIT: _replace_next_commit,
    SqlFault.FAILED_AFTER_COMMIT: _replace_next_commit,
    SqlFault.KILLED_AFTER_COMMIT: _replace_next_commit,
}
_hold_batch: list[sqlite3.Connection] = []
