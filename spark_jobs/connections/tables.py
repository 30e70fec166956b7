"""A pipeline's table, loaded fresh or with the check that it was drained by this pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.lake.catalog import released
from spark_jobs.lake.tables import load_table
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import ConfigError

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections


def load_fresh(connections: Connections, identifier: str) -> Table | None:
    """``load_table`` through a catalog object of its own, closed again; metadata and files stay readable."""
    with released(connections.open_catalog()) as catalog:
        return load_table(catalog, identifier)


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
