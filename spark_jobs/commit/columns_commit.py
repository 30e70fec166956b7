"""Commits that adapt a table's columns to new schemas: columns, types and bindings in one commit.

An empty snapshot goes with it, since what is kept of columns is progress. Neither offsets nor any batch in
flight is touched: files are written for columns that stay.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertLastAssignedFieldId,
    SetCurrentSchemaUpdate,
)

from spark_jobs.commit.anchor import check_anchor
from spark_jobs.commit.swap import Swap, send, stage_change
from spark_jobs.lake.catalog import catalog_error, released, staging
from spark_jobs.lake.tables import MAX_TRIES, evolve_table, load_table, progress_of, refuse_held
from spark_jobs.protocol.errors import fault
from spark_jobs.schema.evolution import Evolution, bind, evolved, exchanged

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.types import IcebergType

    from spark_jobs.protocol.progress import ColumnMap
    from spark_jobs.protocol.work import FailPoints


def commit_columns(
    open_catalog: Callable[[], Catalog],
    identifier: str,
    lacks: Callable[[Table], Evolution],
    fail_points: FailPoints,
) -> Table:
    """Add what the table ``lacks``, computed on its current state, and return the new state.

    Safe to repeat, and beside others that do the same: who comes second decides by what the first left.
    Raises ``RetryableError`` when other changes keep coming first or the catalog does not answer, as
    ``check_anchor`` does, and what ``lacks`` raises.
    """
    failure: Exception | None = None
    for attempt in range(MAX_TRIES):
        time.sleep(0.05 * attempt)
        with released(open_catalog()) as catalog:
            table = load_table(catalog, identifier)
            if table is None:
                raise fault("table-gone", table=identifier)
            evolution = lacks(table)
            if not evolution:
                return table
            if not evolution.bindings and not evolution.widenings and not evolution.docs:
                additions = [(path, kind) for path, kind, _ in evolution.additions]
                return evolve_table(open_catalog, identifier, additions)
            check_anchor(table)
            refuse_held(table, (path for path, _, _ in evolution.additions))
            with staging(table):
                staged = _staged(table, evolution)
            fail_points.reach("columns.before-swap")
            failure = _try(catalog, table, staged)
            fail_points.reach("columns.after-swap")
    if failure is None:
        raise fault("evolution-not-seen", table=identifier)
    raise catalog_error(failure, "did not accept the table's new columns", table=identifier) from failure


def _try(catalog: Catalog, table: Table, swap: Swap) -> Exception | None:
    """Send the change once; the caller checks the table for its outcome."""
    try:
        send(catalog, table, swap)
    except Exception as error:  # noqa: BLE001  (the outcome is unknown whatever it was: look again)
        return error
    return None


def _staged(table: Table, evolution: Evolution) -> Swap:
    change = partial(_change, evolution)
    rehearsal = table.transaction()
    change(rehearsal)  # the ids that the new columns get are those of the commit
    progress = progress_of(table)
    bound = bind(progress.columns, evolution.bindings, rehearsal.table_metadata.schema())
    return stage_change(table, change, replace(progress, columns=bound), {})


def _change(evolution: Evolution, transaction: Transaction) -> None:
    waiting = evolution.additions
    while waiting:
        # What goes into a column that is new itself waits until that is there.
        new = {path for path, _, _ in waiting}
        now = [each for each in waiting if not any(each[0][:size] in new for size in range(1, len(each[0])))]
        with transaction.update_schema() as update:
            for path, kind, doc in now:
                update.add_column(path, kind, doc=doc)
        waiting = [each for each in waiting if each not in now]
    # One schema may bring a column, and the next widen it. With nothing to do a schema would be sent that a
    # server has, which it refuses.
    if evolution.widenings or evolution.docs:
        with transaction.update_schema() as update:
            for path, kind in evolution.widenings.items():
                update.update_column(path, kind)
            for path, told in evolution.docs.items():
                update.update_column(path, doc=told)


# Columns that come with the commit of the rows that were written for them: until then nobody has them.
#
# A column whose source gave it another type cannot be exchanged beforehand: its rows would be null until they
# are written anew. So tasks write for the table as it will be, and one swap brings its columns and its rows.


@dataclass(slots=True)
class PlannedColumns:
    """Planned columns that replace those of ``base`` with these names, and what else it lacks.

    Files carry the ids of columns, so those must be the ones that the commit gives: nobody may have changed
    the columns meanwhile.
    """

    base: Table
    types: Mapping[str, IcebergType]
    evolutions: list[Evolution] = field(default_factory=list)

    def on(self, table: Table) -> Table:
        """Return the table with the planned columns; raises ``CommitConflict`` if its columns changed."""
        if _state(table) != _state(self.base):
            raise fault("columns-changed", table=".".join(table.name()))
        metadata, progress = table.metadata, progress_of(table)
        ids = count(metadata.last_column_id + 1)
        schema, bound = exchanged(table.schema(), self.types, ids), progress.columns
        for evolution in self.evolutions:
            schema = evolved(schema, evolution, ids)
            bound = bind(bound, evolution.bindings, schema)
        planned = Schema(
            *schema.fields,
            schema_id=max(each.schema_id for each in metadata.schemas) + 1,
            identifier_field_ids=table.schema().identifier_field_ids,
        )
        changes = {
            "schemas": [*metadata.schemas, planned],
            "current_schema_id": planned.schema_id,
            "last_column_id": planned.highest_field_id,
            "properties": {**metadata.properties, **replace(progress, columns=bound).to_properties()},
        }
        as_planned = metadata.model_copy(update=changes)
        return Table(table.name(), as_planned, table.metadata_location, table.io, table.catalog)

    def plan_more(self, lacks: Callable[[Table], Evolution]) -> Table:
        """Plan further columns on top of the planned ones, and return the planned table."""
        self.evolutions.append(lacks(self.on(self.base)))
        return self.on(self.base)

    def as_sent(self, swap: Swap, table: Table) -> Swap:
        """Return a swap staged on the planned table, to be sent to the current one."""
        metadata = table.metadata
        is_as_it_was = (
            AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
            AssertLastAssignedFieldId.model_validate({"last-assigned-field-id": metadata.last_column_id}),
        )
        comes = AddSchemaUpdate(schema=self.on(table).schema()), SetCurrentSchemaUpdate()  # the last added
        return replace(
            swap, requirements=(*swap.requirements, *is_as_it_was), updates=(*comes, *swap.updates)
        )


def _state(table: Table) -> tuple[int, int, ColumnMap]:
    metadata = table.metadata
    return metadata.current_schema_id, metadata.last_column_id, progress_of(table).columns
