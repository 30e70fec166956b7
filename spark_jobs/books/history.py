"""What was done to a pipeline's table, newest first: the books, and what the log has beyond them."""

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
    """How far an attempt has come."""

    LANDED = "landed"
    HELD = "held"
    UNFINISHED = "unfinished"
    GIVEN_UP = "given up"


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One attempt; ``phase`` is the last one it logged, None once only the books know it."""

    entry: BookEntry
    state: State
    phase: str | None = None


def history(
    pipeline: PipelineConfig, connections: Connections, *, limit: int, kinds: Collection[str] = ()
) -> tuple[HistoryLine, ...]:
    """The newest ``limit`` attempts of these kinds (all when none are named), earlier tables' included.

    Raises ``RetryableError`` and ``ConfigError`` when catalog or log cannot be read.
    """
    table = load_fresh(connections, pipeline.table)
    logged = logged_lines(table, connections) if table is not None else []
    lines = _merged(pipeline.table, logged, equals("table_name", pipeline.table), connections)
    return tuple(islice((line for line in lines if not kinds or line.entry.kind in kinds), limit))


def unlisted_drains(pipeline: PipelineConfig, connections: Connections) -> int:
    """How many drains the table's snapshots name that neither the log nor the books know any more."""
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
    """Every attempt at this very table, newest first."""
    identifier, uuid = ".".join(table.name()), str(table.metadata.table_uuid)
    return _merged(identifier, logged_lines(table, connections), equals("table_uuid", uuid), connections)


def logged_lines(table: Table, connections: Connections) -> list[HistoryLine]:
    """Every attempt at this very table that the log tells of, but those of which it can read nothing."""
    lines = []
    for attempt in connections.txlog.attempts(str(table.metadata.table_uuid)):
        if (entry := entry_of(attempt)) is not None:
            phase = attempt.entries[-1].phase if attempt.entries else None
            lines.append(HistoryLine(entry, _state(attempt, entry), phase))
    return lines


def _merged(
    table: str, logged: list[HistoryLine], which: BooleanExpression, connections: Connections
) -> Iterator[HistoryLine]:
    """Books and log as one, each attempt once: a fold may be moving them from the log to the books.

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
    """Sorts newest first; the same attempt in books and log gets the same place."""
    return -line.entry.started_at_us, line.entry.attempt
