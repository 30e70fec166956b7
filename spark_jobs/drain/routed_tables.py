"""The tables that a pipeline routes rows to: remembered by its own, and given the columns that rows need."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from spark_jobs.commit.batch_commit import ChangeCommit, batch_of_change
from spark_jobs.commit.columns_commit import commit_columns
from spark_jobs.commit.landing import land
from spark_jobs.connections.tables import load_fresh
from spark_jobs.lake.evolution import table_gone
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.batch import BatchKind
from spark_jobs.protocol.commit_summary import actor_summary
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.progress import Progress
from spark_jobs.schema.evolution import Evolution
from spark_jobs.schema.iceberg_types import type_text
from spark_jobs.schema.routed_columns import lacking

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections
    from spark_jobs.spark.outcomes import SplitOutcome


def remember_routes(connections: Connections, table: Table, routed: Sequence[str]) -> Table:
    """Have the table name all that rows are routed to, before any is: who adopts a batch must know of them.

    A version that knows of no routes reads its progress no more. Returns the table as it is then.
    """

    def with_routes(progress: Progress) -> Progress:
        return replace(progress, routes=tuple(sorted({*progress.routes, *routed})))

    if with_routes(progress_of(table)) == progress_of(table):
        return table
    identifier, now_us = ".".join(table.name()), connections.now_us()
    batch = batch_of_change(table, BatchKind.REANCHOR, pipeline="", attempt=uuid.uuid4().hex, now_us=now_us)
    who = actor_summary(connections.actor, connections.run_id)
    land(connections, ChangeCommit(batch, with_routes, who))
    named = load_fresh(connections, identifier)
    if named is None:
        raise table_gone(identifier)
    return named


def add_routed_columns(
    connections: Connections, own: Table, routed: Mapping[str, Table], observed: Sequence[SplitOutcome]
) -> dict[str, Table]:
    """Give routed tables the columns that splits met values for; all of them as they are then.

    Raises ``ConfigError`` (``route-column-clash``) where one has a column of the name that cannot hold them.
    """
    needed: dict[str, set[str]] = {}
    for outcome in observed:
        for name, columns in outcome.lacking.items():
            needed.setdefault(name, set()).update(columns)
    made = {name: _with_columns(connections, own, name, columns) for name, columns in needed.items()}
    return {**routed, **made}


def _with_columns(connections: Connections, own: Table, routed: str, names: set[str]) -> Table:
    def lacks(table: Table) -> Evolution:
        changes = lacking(own.schema(), table.schema())
        needed = (_change(own, table, changes, name) for name in sorted(names))
        return reduce(Evolution.then, needed, Evolution())

    return commit_columns(connections.open_catalog, routed, lacks, connections.fail_points)


def _change(own: Table, routed: Table, changes: Mapping[str, Evolution | None], name: str) -> Evolution:
    change = changes.get(name, Evolution())
    if change is not None:
        return change
    there, wanted = (type_text(each.schema().find_type(name)) for each in (routed, own))
    table = ".".join(routed.name())
    raise ConfigError(
        f"rows that are routed to {table} have {name} as {wanted}, and it is {there} there",
        code="route-column-clash",
        hint=f"Rename it there, and the next run adds another: ALTER TABLE {table} RENAME COLUMN {name} TO"
        f" {name}_old.",
        table=table,
        column=name,
    )
