"""What a routed table lacks of its pipeline's columns: it has those alone that its rows have values in."""

from __future__ import annotations

from functools import reduce
from operator import attrgetter
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from spark_jobs.schema.evolution import Evolution, Path
from spark_jobs.schema.iceberg_types import type_text
from spark_jobs.schema.projected import project
from spark_jobs.schema.widening import widened

if TYPE_CHECKING:
    from pyiceberg.schema import Schema


def lacking(own: Schema, routed: Schema) -> dict[str, Evolution | None]:
    """Return what gives the routed table each of the pipeline's columns that it cannot take as it is.

    None where nothing does: a column of the name is there, of a type that does not hold these values.
    """
    there = {field.name: field.field_type for field in routed.fields}
    found = {
        field.name: _changes(there.get(field.name), field.field_type, (field.name,), field.doc)
        for field in own.fields
    }
    return {name: changes for name, changes in found.items() if changes is None or changes}


def fitted(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return the rows in a routed table's columns, found by name; what the rows do not have is null."""
    every = dict(zip(rows.column_names, rows.columns, strict=True))
    return pa.Table.from_arrays(
        [_fitted(every.get(field.name), field.type, len(rows)) for field in columns], schema=columns
    )


def _fitted(column: pa.ChunkedArray | None, kind: pa.DataType, count: int) -> pa.ChunkedArray | pa.Array:
    if column is None or (column.null_count == count and column.type != kind):
        return pa.nulls(count, kind)
    if column.type == kind:
        return column
    return project(column.combine_chunks(), kind, attrgetter("name"))


def _changes(there: IcebergType | None, wanted: IcebergType, path: Path, doc: str | None) -> Evolution | None:
    if there is None:
        return Evolution([(path, wanted, doc)])
    parts: list[tuple[IcebergType | None, IcebergType, str, str | None]]
    if isinstance(there, StructType) and isinstance(wanted, StructType):
        fields = {field.name: field.field_type for field in there.fields}
        parts = [(fields.get(each.name), each.field_type, each.name, each.doc) for each in wanted.fields]
    elif isinstance(there, ListType) and isinstance(wanted, ListType):
        parts = [(there.element_type, wanted.element_type, "element", None)]
    elif isinstance(there, MapType) and isinstance(wanted, MapType):
        if type_text(there.key_type) != type_text(wanted.key_type):
            return None
        parts = [(there.value_type, wanted.value_type, "value", None)]
    elif type_text(there) == type_text(wanted) or there in (widened(there, wanted), widened(wanted, there)):
        return Evolution()
    else:
        return Evolution(widenings={path: wanted}) if widened(there, wanted) == wanted else None
    found = [_changes(part, kind, (*path, step), told) for part, kind, step, told in parts]
    if any(each is None for each in found):
        return None
    return reduce(Evolution.then, (each for each in found if each is not None), Evolution())
