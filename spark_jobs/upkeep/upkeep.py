"""What every kind of upkeep has in common: all tables, looked at before and after, never a foreign one."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_jobs.books.entries import books_of
from spark_jobs.commit.anchor import check_anchor
from spark_jobs.connections.tables import load_fresh
from spark_jobs.lake.tables import dead_letters_of
from spark_jobs.protocol.errors import RetryableError
from spark_jobs.spark.procedures import call_procedure, table_argument
from spark_jobs.upkeep.read_figures import table_figures
from spark_jobs.upkeep.reanchor import reanchor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.table import Table

    from spark_jobs.config.settings import PipelineConfig, UpkeepSettings
    from spark_jobs.connections.connect import Connections
    from spark_jobs.protocol.progress import Progress
    from spark_jobs.upkeep.conditions import UpkeepKind
    from spark_jobs.upkeep.figures import TableFigures


@dataclass(frozen=True, slots=True)
class Done:
    """What was done to one table: counts by name, or in ``note`` why nothing was."""

    counts: dict[str, int] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class TableUpkeep:
    """One table before and after."""

    table: str
    before: TableFigures
    after: TableFigures
    done: Done
    milliseconds: int


@dataclass(frozen=True, slots=True)
class UpkeepResult:
    """One kind of upkeep of a pipeline: its table, dead letters and books, as far as they exist."""

    kind: UpkeepKind
    tables: tuple[TableUpkeep, ...]

    @property
    def milliseconds(self) -> int:
        """Time of all tables together."""
        return sum(table.milliseconds for table in self.tables)


@dataclass(frozen=True, slots=True)
class TableWork:
    """One table in hand; ``table`` and ``figures`` are as it stood at first, ``say`` takes a line."""

    kind: UpkeepKind
    identifier: str
    table: Table
    figures: TableFigures
    settings: UpkeepSettings
    connections: Connections
    say: Callable[[str], None]
    tag: str

    @property
    def is_drained(self) -> bool:
        """Whether drains commit to it, so that its main branch has an anchor; the books have none."""
        return self.identifier != books_of(self.identifier)

    def make_anchor(self, change: Callable[[Progress], Progress] = lambda progress: progress) -> None:
        """Make main the anchor again, with ``change`` of the table's progress."""
        if self.is_drained:
            reanchor(self.identifier, self.connections, change)

    def call(self, procedure: str, **arguments: Any) -> dict[str, Any]:
        """Run a procedure on the table and give its one row; none is an empty one."""
        rows = self.rows(procedure, **arguments)
        return rows[0] if rows else {}

    def rows(self, procedure: str, **arguments: Any) -> list[dict[str, Any]]:
        """Run a procedure on the table and give its rows; first stop one that a dead process left running."""
        self.connections.interrupt(self.tag)
        catalog = self.table.catalog.name
        named: Mapping[str, Any] = {"table": table_argument(catalog, self.identifier), **arguments}
        rows = call_procedure(self.connections.spark(), catalog, procedure, named, tag=self.tag)
        return [row.asDict() for row in rows]

    def reload(self) -> Table:
        """The table as it is now, through a new catalog object; the one in hand when it was dropped since."""
        return load_fresh(self.connections, self.identifier) or self.table


def tidy_tables(
    kind: UpkeepKind,
    pipeline: PipelineConfig,
    connections: Connections,
    work: Callable[[TableWork], Done],
    say: Callable[[str], None],
) -> UpkeepResult:
    """Do ``work`` to each of the pipeline's tables that exists.

    Raises ``SourceChanged`` before a table is touched whose main branch is not what the last commit left. A
    ``RetryableError`` of one table keeps no other from its upkeep: it is said, and raised when all are done.
    """
    tag = f"upkeep-{kind}-{pipeline.name}"
    done: list[TableUpkeep] = []
    failed: list[RetryableError] = []
    for identifier in tables_of(pipeline):
        began = time.monotonic()
        table = load_fresh(connections, identifier)
        if table is None:
            continue
        before = table_figures(table)
        hand = TableWork(kind, identifier, table, before, pipeline.upkeep, connections, say, tag)
        if hand.is_drained:
            check_anchor(table)
        try:
            outcome = work(hand)
        except RetryableError as error:
            say(f"{identifier}: {error.message}")
            failed.append(error)
            continue
        after = table_figures(hand.reload())
        milliseconds = round((time.monotonic() - began) * 1000)
        done.append(TableUpkeep(identifier, before, after, outcome, milliseconds))
    if failed:
        raise failed[0]
    return UpkeepResult(kind, tuple(done))


def tables_of(pipeline: PipelineConfig) -> tuple[str, str, str]:
    """The pipeline's table, its dead letters, and the books, which it shares with its namespace."""
    return (pipeline.table, dead_letters_of(pipeline.table), books_of(pipeline.table))
