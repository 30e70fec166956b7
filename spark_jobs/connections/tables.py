"""A pipeline's table, loaded fresh, with its dead letters, or with the check that it was drained at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.lake.catalog import released
from spark_jobs.lake.tables import dead_letters_of, load_table, progress_of
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import ConfigError

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections


def load_fresh(connections: Connections, identifier: str) -> Table | None:
    """``load_table`` through a catalog object of its own, closed again; metadata and files stay readable."""
    with released(connections.open_catalog()) as catalog:
        return load_table(catalog, identifier)


def both_tables(connections: Connections, identifier: str) -> tuple[Table | None, Table | None]:
    """Return a table and its dead letters as one: nothing that moves rows from one to the other came between.

    A drain may have: its dead letters are of offsets that this table has not reached.
    """
    table = load_fresh(connections, identifier)
    while table is not None:
        dead_letters = load_fresh(connections, dead_letters_of(identifier))
        now = load_fresh(connections, identifier)
        if now is None or _epoch(now) == _epoch(table):
            return table, dead_letters
        table = now
    return None, None


def _epoch(table: Table) -> tuple[object, ...]:
    progress = progress_of(table)
    return table.metadata.table_uuid, progress.generation, progress.replay_epoch, progress.rollbacks


def load_drained(pipeline: PipelineConfig, connections: Connections) -> Table:
    """Return the table as it is now; raises ``ConfigError`` (``no-table-yet``) before its first batch."""
    table = load_fresh(connections, pipeline.table)
    if table is None:
        raise no_table_yet(pipeline)
    return table


def no_table_yet(pipeline: PipelineConfig) -> ConfigError:
    """Return the error for a pipeline before its first batch."""
    return ConfigError(
        "the pipeline has no table yet",
        code="no-table-yet",
        hint=f"The first batch makes it: {mends.command('drain', pipeline.name)}."
        " `start` says where that begins.",
        pipeline=pipeline.name,
        table=pipeline.table,
    )
