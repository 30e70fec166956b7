"""Fold finished attempts of a pipeline's log into the batch history, which keeps listing the log cheap."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from spark_jobs.books.entries import books_of, entry_of
from spark_jobs.books.table import enter
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import load_fresh
from spark_jobs.lake.dead_letter_files import is_needed, saved_files
from spark_jobs.notices.notice import owes_notice
from spark_jobs.notices.sender import send_owed, warn_of_owed
from spark_jobs.txlog.entries import Attempt
from spark_jobs.txlog.store import CLOSING_AFTER_US

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections

# Bounds what is held in memory; what is left over is the next fold's.
MAX_FOLDED_ATTEMPTS = 1_000


@dataclass(frozen=True, slots=True)
class CheckpointResult:
    """``folded_attempts`` were removed from the log, ``rows_added`` of them are new in the history.

    ``snapshot_id`` is the books' and None when nothing was added; objects and bytes are the log's.
    """

    books: str
    folded_attempts: int = 0
    rows_added: int = 0
    snapshot_id: int | None = None
    objects_before: int = 0
    objects_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


def checkpoint(pipeline: PipelineConfig, connections: Connections) -> CheckpointResult:
    """Add the finished attempts to the batch history, then delete their log objects.

    Notices that are owed are sent first, and kept dead letters deleted that nobody can ask for any more.
    Dying in between leaves both; the next fold finds them in the books and deletes what is left. Safe beside
    a drain, a recovery and another fold. Raises ``RetryableError``, ``ConfigError`` and
    ``CommitStateUnknown``: nothing of the log was deleted then, run it again.
    """
    books = books_of(pipeline.table)
    if (table := load_fresh(connections, pipeline.table)) is None:
        return CheckpointResult(books)
    log, table_uuid = connections.txlog, str(table.metadata.table_uuid)
    _forget_dead_letters(pipeline, connections, table_uuid)
    attempts = _foldable(pipeline, connections, table_uuid)
    before = log.objects(table_uuid)
    entries = [entry for entry in map(entry_of, attempts) if entry is not None]
    if not entries:
        return CheckpointResult(books, 0, 0, None, *chain(*zip(before, before, strict=True)))
    entered = enter(connections, books, entries, fold=connections.new_attempt())
    connections.fail_points.reach("checkpoint.after-entered")
    log.delete_attempts(table_uuid, (entry.attempt for entry in entries))
    connections.fail_points.reach("checkpoint.after-delete")
    sizes = zip(before, log.objects(table_uuid), strict=True)
    return CheckpointResult(books, len(entries), entered.rows, entered.snapshot_id, *chain(*sizes))


def _foldable(pipeline: PipelineConfig, connections: Connections, table_uuid: str) -> tuple[Attempt, ...]:
    """Return finished attempts; an undelivered notice would be forgotten, so these are left out."""
    log = connections.txlog
    if pipeline.notify.webhook is None:
        return log.read(table_uuid, log.finished(table_uuid)[:MAX_FOLDED_ATTEMPTS])
    warn_of_owed(pipeline, send_owed(pipeline, connections))
    untold = frozenset(log.without_notice(table_uuid))
    finished = sorted(log.finished(table_uuid), key=untold.__contains__)
    attempts = log.read(table_uuid, finished[:MAX_FOLDED_ATTEMPTS])
    return tuple(attempt for attempt in attempts if not owes_notice(attempt))


def _forget_dead_letters(pipeline: PipelineConfig, connections: Connections, table_uuid: str) -> None:
    """Delete the files of redrives that are no longer needed; keep those of the last hour."""
    before_us = connections.now_us() - CLOSING_AFTER_US
    files = [f for f in saved_files(connections.state, table_uuid) if f.modified_us < before_us]
    unfinished = connections.txlog.begun(table_uuid) if files else {}
    table = load_fresh(connections, pipeline.table) if files else None
    for file in files:
        if table is not None and not is_needed(file, table, unfinished):
            connections.state.delete(file)
