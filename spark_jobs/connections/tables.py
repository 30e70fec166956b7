"""A pipeline's tables, loaded fresh: all as one, or its own with the check that it was drained at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.lake.catalog import released
from spark_jobs.lake.tables import dead_letters_of, is_no_table_of_ours, load_table, progress_of
from spark_jobs.protocol.errors import ConfigError, SourceChanged, fault

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections


def load_fresh(connections: Connections, identifier: str) -> Table | None:
    """``load_table`` through a catalog object of its own, closed again; metadata and files stay readable."""
    with released(connections.open_catalog()) as catalog:
        return load_table(catalog, identifier)


@dataclass(frozen=True, slots=True)
class PipelineTables:
    """A table, its dead letters, and those that it ever routed rows to, by name, as far as they are there."""

    data: Table
    dead_letters: Table | None
    routed: Mapping[str, Table] = field(default_factory=dict)

    @property
    def every(self) -> tuple[Table, ...]:
        """All that have rows or letters, its own first."""
        letters = () if self.dead_letters is None else (self.dead_letters,)
        return (self.data, *letters, *self.routed.values())


def tables_as_one(connections: Connections, identifier: str) -> PipelineTables | None:
    """Return a pipeline's tables as one: nothing that moves rows from one to the other came between.

    A drain may have: what it brought the others is of offsets that this table has not reached.
    """
    with released(connections.open_catalog()) as catalog:
        load = partial(load_table, catalog)
        table = load(identifier)
        while table is not None:
            beside = load(dead_letters_of(identifier)), load_routed(load, table)
            now = load(identifier)
            if now is None or _epoch(now) == _epoch(table):
                return PipelineTables(table, *beside)
            table = now
    return None


def load_routed(load: Callable[[str], Table | None], table: Table) -> dict[str, Table]:
    """Return the tables that rows of this one were ever routed to, without foreign ones of the name."""
    uuid = str(table.metadata.table_uuid)
    found: dict[str, Table] = {}
    for name in progress_of(table).routes:
        try:
            there = load(name)
        except (ConfigError, SourceChanged) as error:
            if not is_no_table_of_ours(error):
                raise
            continue
        if there is not None and progress_of(there).routed_from == uuid:
            found[name] = there
    return found


def _epoch(table: Table) -> tuple[object, ...]:
    progress = progress_of(table)
    return table.metadata.table_uuid, progress.generation, progress.replay_epoch, progress.rollbacks


def load_drained(pipeline: PipelineConfig, connections: Connections) -> Table:
    """Return the table as it is now; raises ``ConfigError`` (``no-table-yet``) before its first batch."""
    table = load_fresh(connections, pipeline.table)
    if table is None:
        raise fault("no-table-yet", **pipeline.where)
    return table
