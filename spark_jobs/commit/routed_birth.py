"""The birth of a table that another one's rows are routed to: laid out as that one, and named as its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import BinaryType

from spark_jobs.commit.birth import COMMENT, give_birth, unknowing
from spark_jobs.lake.tables import load_table, progress_of
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.metadata_columns import KEY, METADATA_COLUMNS, with_metadata_columns
from spark_jobs.schema.sort_order import sort_order, sorted_by

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


def create_routed_table(
    catalog: Catalog,
    identifier: str,
    own: Table,
    *,
    properties: Mapping[str, str],
    location: str | None = None,
) -> Table:
    """Make the table, or load the one that is there.

    Of ``own``'s columns it is born with those that it is partitioned or sorted by; others come with rows that
    have values in them. Raises ``ConfigError`` (``not-routed-from``) for a table that rows of another one are
    routed to, or none, and as ``give_birth``.
    """
    table = load_table(catalog, identifier)
    if table is None:
        schema, sort_by = own.schema(), sorted_by(own.schema(), own.sort_order())
        sources = {each.source_id: str(schema.find_column_name(each.source_id)) for each in own.spec().fields}
        columns = _schema(schema, {*sort_by, *sources.values()})
        table = give_birth(
            catalog,
            identifier,
            schema=columns,
            spec=_spec(own.spec(), {old: columns.find_field(name).field_id for old, name in sources.items()}),
            properties={
                **properties,
                COMMENT: f"Made by Sluice of rows that are routed here from {'.'.join(own.name())}",
            },
            location=location,
            progress=replace(unknowing(progress_of(own)), routed_from=str(own.metadata.table_uuid)),
            order=sort_order(columns, sort_by),
        )
    refuse_other_origin(table, str(own.metadata.table_uuid))
    return table


def refuse_other_origin(table: Table, own_uuid: str) -> None:
    """Raise ``ConfigError`` (``not-routed-from``) unless the table was made for rows of that one."""
    if progress_of(table).routed_from == own_uuid:
        return
    name = ".".join(table.name())
    raise ConfigError(
        "the table was not made for rows that this pipeline routes",
        code="not-routed-from",
        hint=f"Give the route another table, or rename or drop {name}: a new one is made.",
        table=name,
    )


def _schema(own: Schema, named: set[str]) -> Schema:
    """Return the columns that hold what is named, a field of a struct as well, and every table's own."""
    holding = {part for name in named for part in (name, name.partition(".")[0])} - {*METADATA_COLUMNS}
    fields = [field for field in own.fields if field.name in holding]
    key_is_binary = isinstance(own.find_type(KEY), BinaryType)
    return assign_fresh_schema_ids(with_metadata_columns(Schema(*fields), key_is_binary=key_is_binary))


def _spec(own: PartitionSpec, sources: Mapping[int, int]) -> PartitionSpec:
    return PartitionSpec(
        *(
            PartitionField(sources[each.source_id], PARTITION_FIELD_ID_START + n, each.transform, each.name)
            for n, each in enumerate(own.fields)
        )
    )
