"""Runs upkeep on all of a pipeline's tables, with figures before and after."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.books.entries import books_of, is_due
from spark_jobs.commit.anchor import check_anchor
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import load_fresh, load_routed
from spark_jobs.lake.tables import dead_letters_of
from spark_jobs.protocol.errors import RetryableError
from spark_jobs.upkeep.figures import TableFigures
from spark_jobs.upkeep.kind import Due, UpkeepKind, UpkeepOutcome
from spark_jobs.upkeep.read_figures import table_figures
from spark_jobs.upkeep.registry import due_upkeep
from spark_jobs.upkeep.table_work import TableWork

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections


@dataclass(frozen=True, slots=True)
class TableUpkeep:
    """One table's figures before and after."""

    table: str
    before: TableFigures
    after: TableFigures
    done: UpkeepOutcome
    milliseconds: int


@dataclass(frozen=True, slots=True)
class UpkeepResult:
    """One kind of upkeep of a pipeline: results of all existing tables, including the books."""

    kind: str
    tables: tuple[TableUpkeep, ...]

    @property
    def milliseconds(self) -> int:
        """Total time of all tables."""
        return sum(table.milliseconds for table in self.tables)


def run_upkeep(
    kind: UpkeepKind,
    pipeline: PipelineConfig,
    connections: Connections,
    say: Callable[[str], None] = lambda _line: None,
    *,
    is_rehearsal: bool = False,
) -> UpkeepResult:
    """Run one kind of upkeep on each existing table of the pipeline, whether or not it is due.

    Raises every kind of ``SluiceError``: ``SourceChanged`` before a table is touched whose main branch is not
    what the last commit left. A ``RetryableError`` of one table keeps no other from its upkeep: it is said,
    and raised when all are done.
    """
    done: list[TableUpkeep] = []
    failed: list[RetryableError] = []
    names = tables_of(pipeline, connections)
    for identifier in names:
        began = time.monotonic()
        table = load_fresh(connections, identifier)
        if table is None:
            continue
        before, tag = table_figures(table), f"upkeep-{kind.name}-{pipeline.name}"
        work = TableWork(
            identifier, names, table, before, pipeline.upkeep, connections, say, tag, is_rehearsal
        )
        if work.is_drained:
            check_anchor(table)
        try:
            outcome = kind.tidy(work)
        except RetryableError as error:
            say(f"{identifier}: {error.message}")
            failed.append(error)
            continue
        after = work.read_figures()
        milliseconds = round((time.monotonic() - began) * 1000)
        done.append(TableUpkeep(identifier, before, after, outcome, milliseconds))
    if failed:
        raise failed[0]
    return UpkeepResult(kind.name, tuple(done))


def tables_of(pipeline: PipelineConfig, connections: Connections) -> tuple[str, ...]:
    """Return the pipeline's table, its dead-letter and routed tables, and its namespace's books."""
    table = load_fresh(connections, pipeline.table)
    routed = load_routed(partial(load_fresh, connections), table) if table is not None else ()
    return (pipeline.table, dead_letters_of(pipeline.table), *routed, books_of(pipeline.table))


# What a pipeline's tables and its transaction log are due for, as they stand now.


def upkeep_due(
    pipeline: PipelineConfig, connections: Connections, seconds_since: Mapping[str, float] | None = None
) -> tuple[Due, ...]:
    """Return the upkeep that the pipeline's tables need, in the best order.

    ``seconds_since`` is as for ``due_upkeep``; without it what goes by the clock is due.
    """
    found = (load_fresh(connections, name) for name in tables_of(pipeline, connections))
    return due_upkeep(
        [table_figures(table) for table in found if table is not None],
        pipeline.upkeep,
        now_ms=connections.now_us() // 1000,
        seconds_since=seconds_since or {},
    )


def log_due(pipeline: PipelineConfig, connections: Connections) -> str | None:
    """Return the reason to fold the pipeline's transaction log now, or None."""
    table = load_fresh(connections, pipeline.table)
    finished = len(connections.txlog.finished(str(table.metadata.table_uuid))) if table else 0
    return f"{finished:,} finished attempts" if is_due(finished) else None
