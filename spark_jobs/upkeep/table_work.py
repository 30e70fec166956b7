"""Iceberg's procedures on one table, and its anchor afterwards."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from spark_jobs.books.entries import books_of
from spark_jobs.commit.batch_commit import ChangeCommit, batch_of_change
from spark_jobs.commit.swap import land
from spark_jobs.config.sections import UpkeepSettings
from spark_jobs.connections.connect import load_fresh
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.commit_summary import actor_summary
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.works.changes import REANCHOR
from spark_jobs.spark.procedures import call_procedure, refuse_without, table_argument
from spark_jobs.storage.azure import AZURE_SCHEMES
from spark_jobs.upkeep.figures import TableFigures
from spark_jobs.upkeep.read_figures import table_figures

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections


_AZURES_CLIENT = "com.azure.storage.file.datalake.DataLakeFileSystemClient"  # of iceberg-azure-bundle
_NO_CONF: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TableWork:
    """The upkeep of one table.

    ``table`` and ``figures`` are as it stood at first, ``say`` takes a line. ``pipeline_tables`` are the
    names of all that the pipeline has, its own first. ``tag`` names the work to Spark.
    """

    identifier: str
    pipeline_tables: tuple[str, ...]
    table: Table
    figures: TableFigures
    settings: UpkeepSettings
    connections: Connections
    say: Callable[[str], None]
    tag: str
    is_rehearsal: bool = False

    @property
    def is_drained(self) -> bool:
        """True if drains commit to it, so that its main branch has an anchor; the books have none."""
        return self.identifier != books_of(self.identifier)

    def make_anchor(self, change: Callable[[Progress], Progress] = lambda progress: progress) -> None:
        """Make main the anchor again after upkeep's snapshots: expiry may remove the chain between them.

        Commits an empty snapshot of ours when main is not the anchor, or when ``change`` says more. Raises
        ``SourceChanged`` when main does not descend from the anchor by our commits and by compaction: nothing
        is then taken for granted anew. Safe to repeat and beside drains. The books, and a table that does not
        exist, are left alone.
        """
        connections = self.connections
        table = load_fresh(connections, self.identifier) if self.is_drained else None
        if table is None:
            return
        progress = progress_of(table)
        if progress.anchor == table.metadata.current_snapshot_id and change(progress) == progress:
            return
        summary = actor_summary(connections.actor, connections.run_id)
        batch = batch_of_change(
            table, REANCHOR, pipeline="", attempt=uuid.uuid4().hex, now_us=connections.now_us()
        )
        land(connections, ChangeCommit(batch, change, summary))

    def call(self, procedure: str, *, conf: Mapping[str, str] = _NO_CONF, **arguments: Any) -> dict[str, Any]:
        """Run a procedure on the table and return its one row, empty if there is none.

        ``conf`` holds for this call alone.
        """
        session = self.connections.spark().conf
        for key, value in conf.items():
            session.set(key, value)
        try:
            rows = self.rows(procedure, **arguments)
        finally:
            for key in conf:
                session.unset(key)
        return rows[0] if rows else {}

    def rows(self, procedure: str, **arguments: Any) -> list[dict[str, Any]]:
        """Run a procedure and return its rows, after stopping one that a dead process left running."""
        self.connections.interrupt(self.tag)
        if self.table.location().startswith(AZURE_SCHEMES):
            refuse_without(self.connections.spark(), _AZURES_CLIENT, procedure)
        catalog = self.table.catalog.name
        named: Mapping[str, Any] = {"table": table_argument(catalog, self.identifier), **arguments}
        rows = call_procedure(self.connections.spark(), catalog, procedure, named, tag=self.tag)
        return [row.asDict() for row in rows]

    def reload(self) -> Table:
        """Return the current table, through a new catalog object, or the old state if it was dropped."""
        return load_fresh(self.connections, self.identifier) or self.table

    def read_figures(self) -> TableFigures:
        """Return the table's current figures."""
        return table_figures(self.reload())
