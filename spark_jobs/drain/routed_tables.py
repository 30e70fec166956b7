"""The tables that a pipeline routes rows to: remembered by its own, and given the columns that rows need."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.commit.batch_commit import ChangeCommit, batch_of_change
from spark_jobs.commit.columns_commit import commit_columns
from spark_jobs.commit.landing import land
from spark_jobs.connections.tables import load_fresh
from spark_jobs.lake.parquet_writer import SplitWriter
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.batch import WrittenFile
from spark_jobs.protocol.commit_summary import actor_summary
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.works.changes import REANCHOR
from spark_jobs.records.routing import taken
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.column_source import fitted, lacking
from spark_jobs.schema.evolution import Evolution
from spark_jobs.schema.iceberg_types import type_text

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

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
    batch = batch_of_change(table, REANCHOR, pipeline="", attempt=uuid.uuid4().hex, now_us=now_us)
    who = actor_summary(connections.actor, connections.run_id)
    land(connections, ChangeCommit(batch, with_routes, who))
    named = load_fresh(connections, identifier)
    if named is None:
        raise fault("table-gone", table=identifier)
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
    raise fault("route-column-clash", wanted=wanted, there=there, table=table, column=name)


# The routed rows of one split into files of their tables, whose columns are those that their rows need.


MOST_WAITING_BYTES = 8 << 20


class ColumnsLacking(Exception):
    """Rows have values that the table they are routed to has no column for."""


@dataclass(frozen=True, slots=True)
class RoutedTable:
    """A table that rows are routed to: its schema, and which columns of the pipeline's it cannot take."""

    columns: pa.Schema
    lacking: frozenset[str]

    @classmethod
    def of(cls, metadata: TableMetadata, own: Schema) -> RoutedTable:
        """Look at the table beside the pipeline's own columns."""
        return cls(arrow_schema(metadata.schema()), frozenset(lacking(own, metadata.schema())))

    def lacks(self, rows: pa.Table) -> frozenset[str]:
        """Return the columns in which these rows have values that it cannot take."""
        return frozenset(name for name in self.lacking if rows.column(name).null_count < len(rows))


@dataclass
class RoutedWriters:
    """The writers of a split's routed rows; one is opened with the first row of its table.

    A chunk has few rows for each of many tables: they are gathered until handing them over is worth a call.
    """

    tables: Mapping[str, RoutedTable]
    open_writer: Callable[[str], SplitWriter]
    _opened: dict[str, SplitWriter] = field(default_factory=dict)
    _waiting: dict[str, list[pa.Table]] = field(default_factory=dict)
    _waiting_bytes: int = 0

    def write(self, routed: Mapping[str, pa.Table]) -> None:
        """Take rows by their table, in the pipeline's columns. Raises ``ColumnsLacking``."""
        for name, rows in routed.items():
            if self.tables[name].lacks(rows):
                raise ColumnsLacking
            self._waiting.setdefault(name, []).append(rows)
        if routed:
            # They are cut out of one table, which they keep; one of them says well enough how large it is.
            largest = max(routed.values(), key=len)
            self._waiting_bytes += largest.nbytes * sum(map(len, routed.values())) // len(largest)
        if self._waiting_bytes >= MOST_WAITING_BYTES:
            self._hand_over()

    def _hand_over(self) -> None:
        for name, parts in self._waiting.items():
            if name not in self._opened:
                self._opened[name] = self.open_writer(name)
            rows = pa.concat_tables(parts)
            copy = rows.combine_chunks() if len(parts) > 1 else taken(rows, np.arange(len(rows)))
            self._opened[name].write(fitted(copy, self.tables[name].columns))
        self._waiting.clear()
        self._waiting_bytes = 0

    def close(self) -> dict[str, tuple[WrittenFile, ...]]:
        """Finish every file."""
        self._hand_over()
        return {name: tuple(writer.close()) for name, writer in self._opened.items()}

    def abort(self) -> None:
        """Let go of open files after a failure."""
        for writer in self._opened.values():
            writer.abort()
