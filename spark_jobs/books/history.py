"""History of a pipeline's table, newest first: batch history, and newer attempts in the log."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING

from spark_jobs.books.entries import BookEntry, books_of, entry_of
from spark_jobs.books.table import newest_first
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import load_fresh
from spark_jobs.lake.catalog import released
from spark_jobs.lake.row_filters import equals
from spark_jobs.lake.tables import load_table, summary_of
from spark_jobs.txlog.entries import Attempt, is_held

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections


class State(StrEnum):
    """State of an attempt."""

    LANDED = "landed"
    HELD = "held"
    UNFINISHED = "unfinished"
    GIVEN_UP = "given up"


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One attempt; ``phase`` is the last one logged, None if only the batch history has it."""

    entry: BookEntry
    state: State
    phase: str | None = None


def history(
    pipeline: PipelineConfig, connections: Connections, *, limit: int, kinds: Collection[str] = ()
) -> tuple[HistoryLine, ...]:
    """Return the newest ``limit`` attempts of these kinds (default: all), including earlier tables'.

    Raises ``RetryableError`` and ``ConfigError`` when catalog or log cannot be read.
    """
    table = load_fresh(connections, pipeline.table)
    logged = logged_lines(table, connections) if table is not None else []
    lines = _merged(pipeline.table, logged, equals("table_name", pipeline.table), connections)
    return tuple(islice((line for line in lines if not kinds or line.entry.kind in kinds), limit))


def unlisted_drains(pipeline: PipelineConfig, connections: Connections) -> int:
    """Return the number of drains in the table's snapshots that neither log nor batch history has."""
    table = load_fresh(connections, pipeline.table)
    if table is None:
        return 0
    summaries = map(summary_of, table.metadata.snapshots)
    missing = {each.attempt for each in summaries if each.balances is not None}
    for line in lines_of(table, connections):
        missing.discard(line.entry.attempt)
        if not missing:
            break
    return len(missing)


def lines_of(table: Table, connections: Connections) -> Iterator[HistoryLine]:
    """Return every attempt of this exact table, newest first."""
    identifier, uuid = ".".join(table.name()), str(table.metadata.table_uuid)
    return _merged(identifier, logged_lines(table, connections), equals("table_uuid", uuid), connections)


def logged_lines(table: Table, connections: Connections) -> list[HistoryLine]:
    """Return every attempt of this exact table in the log, except unreadable ones."""
    lines = []
    for attempt in connections.txlog.attempts(str(table.metadata.table_uuid)):
        if (entry := entry_of(attempt)) is not None:
            phase = attempt.entries[-1].phase if attempt.entries else None
            lines.append(HistoryLine(entry, _state(attempt, entry), phase))
    return lines


def _merged(
    table: str, logged: list[HistoryLine], which: BooleanExpression, connections: Connections
) -> Iterator[HistoryLine]:
    """Merge batch history and log, each attempt once: a fold may be moving attempts.

    ``logged`` was read before the books are: what has left the log by then is in the books.
    """
    newest = sorted(logged, key=_age)
    previous = None
    for line in heapq.merge(_booked(table, which, connections), newest, key=_age):
        if line.entry.attempt != previous:
            yield line
        previous = line.entry.attempt


def _booked(table: str, which: BooleanExpression, connections: Connections) -> Iterator[HistoryLine]:
    with released(connections.open_catalog()) as catalog:
        books = load_table(catalog, books_of(table))
        for entry in newest_first(books, which) if books is not None else ():
            yield HistoryLine(entry, State.LANDED if entry.is_landed else State.GIVEN_UP)


def _state(attempt: Attempt, entry: BookEntry) -> State:
    if entry.is_landed:
        return State.LANDED
    if entry.finished_at_us is not None:
        return State.GIVEN_UP
    return State.HELD if is_held(attempt) else State.UNFINISHED


def _age(line: HistoryLine) -> tuple[int, str]:
    """Return the sort key, newest first; the same in batch history and log."""
    return -line.entry.started_at_us, line.entry.attempt
