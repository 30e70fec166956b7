"""A pipeline's table, loaded fresh, with its dead letters, or with the check that it was drained at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.lake.catalog import released
from spark_jobs.lake.tables import dead_letters_of, load_table
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import ConfigError

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections

# A busy table is committed to every few seconds, and loaded in milliseconds.
_TRIES = 5


def load_fresh(connections: Connections, identifier: str) -> Table | None:
    """``load_table`` through a catalog object of its own, closed again; metadata and files stay readable."""
    with released(connections.open_catalog()) as catalog:
        return load_table(catalog, identifier)


def both_tables(connections: Connections, identifier: str) -> tuple[Table | None, Table | None]:
    """Return a table and its dead letters as they stood together: nothing was committed to it in between."""
    for _ in range(_TRIES):
        table = load_fresh(connections, identifier)
        dead_letters = load_fresh(connections, dead_letters_of(identifier))
        now = load_fresh(connections, identifier)
        if table is None or (now is not None and now.metadata_location == table.metadata_location):
            break
    return table, dead_letters


def load_drained(pipeline: PipelineConfig, connections: Connections) -> Table:
    """Return the table as it is now; raises ``ConfigError`` (``no-table-yet``) before its first batch."""
    table = load_fresh(connections, pipeline.table)
    if table is None:
        raise ConfigError(
            "the pipeline has no table yet",
            code="no-table-yet",
            hint=f"The first batch makes it: {mends.command('drain', pipeline.name)}."
            " `start` says where that begins.",
            pipeline=pipeline.name,
            table=pipeline.table,
        )
    return table
