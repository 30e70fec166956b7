"""Arrow schemas of Iceberg tables, with the table's own field ids.

Always from ``table.schema()``: catalogs number the fields anew when a table is made. Strings, binaries and
lists have 32-bit offsets (Arrow's JSON reader knows no other lists, and a chunk is far below 2 GiB); in
Parquet the two are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow

from spark_jobs.schema.metadata_columns import METADATA_COLUMNS

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table


def file_schema(table: Table) -> pa.Schema:
    """Return every column in the table's order: what a data file holds.

    Columns that were added later stand after the metadata columns: find columns by name.
    """
    return arrow_schema(table.schema())


def json_columns(table: Table) -> pa.Schema:
    """Return the columns that come from the JSON, in the table's order."""
    return pa.schema([field for field in file_schema(table) if field.name not in METADATA_COLUMNS])


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of an Iceberg schema, field ids in the fields' metadata."""
    return pa.schema([_short(field) for field in schema_to_pyarrow(schema)])


def _short(field: pa.Field) -> pa.Field:
    return field.with_type(_short_type(field.type))


def _short_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_large_list(kind):
        return pa.list_(_short(kind.value_field))
    if pa.types.is_struct(kind):
        return pa.struct([_short(kind.field(position)) for position in range(kind.num_fields)])
    if pa.types.is_map(kind):
        return pa.map_(_short(kind.key_field), _short(kind.item_field))
    return kind
