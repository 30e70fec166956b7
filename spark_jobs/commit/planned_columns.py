"""Columns that come with the commit of the rows that were written for them: until then nobody has them.

A column whose source gave it another type cannot be exchanged beforehand: its rows would be null until they
are written anew. So tasks write for the table as it will be, and one swap brings its columns and its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertLastAssignedFieldId,
    SetCurrentSchemaUpdate,
)

from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.errors import CommitConflict
from spark_jobs.schema.evolution import Evolution, bind, evolved, exchanged

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType

    from spark_jobs.commit.swap import Swap
    from spark_jobs.protocol.progress import ColumnMap


@dataclass(slots=True)
class PlannedColumns:
    """Other columns in the place of those of ``base`` with these names, and what else it lacks.

    Files carry the ids of columns, so those must be the ones that the commit gives: nobody may have changed
    the columns meanwhile.
    """

    base: Table
    types: Mapping[str, IcebergType]
    evolutions: list[Evolution] = field(default_factory=list)

    def on(self, table: Table) -> Table:
        """Return the table as it will be. Raises ``CommitConflict`` where its columns are not the base's."""
        if _state(table) != _state(self.base):
            raise CommitConflict(
                "the table's columns were changed while files were being written for others",
                code="columns-changed",
                hint="Nothing was committed. Run it again: all is read anew for the table as it is.",
                table=".".join(table.name()),
            )
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

    def and_more(self, lacks: Callable[[Table], Evolution]) -> Table:
        """Plan what the table lacks as it is planned so far, and return it as it is planned then."""
        self.evolutions.append(lacks(self.on(self.base)))
        return self.on(self.base)

    def sent_with(self, swap: Swap, table: Table) -> Swap:
        """Return a swap that was staged on the table as it will be, to be sent to it as it is."""
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
