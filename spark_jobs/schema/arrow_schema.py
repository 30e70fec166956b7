"""Arrow schemas of Iceberg tables, with the table's own field ids.

Always from ``table.schema()``: catalogs number the fields anew when a table is made. Strings, binaries and
lists have 32-bit offsets (Arrow's JSON reader knows no other lists, and a chunk is far below 2 GiB); in
Parquet the two are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow

from spark_jobs.schema.inference import DeclaredType, Field, FieldType, ListOf, MapOf, Primitive, StructOf
from spark_jobs.schema.metadata_columns import METADATA_COLUMNS

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table


def json_columns(table: Table) -> pa.Schema:
    """Return the columns that come from the JSON, in the table's order."""
    return pa.schema([field for field in arrow_schema(table.schema()) if field.name not in METADATA_COLUMNS])


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of an Iceberg schema, field ids in the fields' metadata.

    Columns that were added later stand after the metadata columns: find columns by name.
    """
    return pa.schema([_short(field) for field in schema_to_pyarrow(schema)])


def column_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return Python values, UUIDs as bytes, as a column: Arrow builds none with UUIDs or JSON inside."""
    return pa.array(values, _stored(kind)).cast(kind)


def no_rows(schema: pa.Schema) -> pa.Table:
    """Return a table without rows, as ``empty_table`` would but for UUIDs inside."""
    return pa.Table.from_arrays([column_of((), field.type) for field in schema], schema=schema)


def _stored(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    return _inside(kind, lambda field: field.with_type(_stored(field.type)))


def _short(field: pa.Field) -> pa.Field:
    return field.with_type(_short_type(field.type))


def _short_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    return _inside(kind, _short)


def _inside(kind: pa.DataType, change: Callable[[pa.Field], pa.Field]) -> pa.DataType:
    """Return a nested type with its fields changed, its lists with 32-bit offsets; any other as it is."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(change(kind.value_field))
    if pa.types.is_struct(kind):
        return pa.struct(list(map(change, kind)))
    if pa.types.is_map(kind):
        return pa.map_(change(kind.key_field), change(kind.item_field))
    return kind


_EVIDENT = (
    (pa.string(), Primitive.STRING),
    (pa.large_string(), Primitive.STRING),
    (pa.int64(), Primitive.LONG),
    (pa.float64(), Primitive.DOUBLE),
    (pa.bool_(), Primitive.BOOLEAN),
    (pa.timestamp("us", "UTC"), Primitive.TIMESTAMPTZ),
)


def fields_of(columns: Iterable[pa.Field]) -> tuple[Field, ...]:
    """Return the columns of a schema or struct, as ``spark_jobs.schema.inference.evolve`` takes them."""
    return tuple(Field(column.name, _field_type(column.type)) for column in columns)


def _field_type(kind: pa.DataType) -> FieldType:
    if pa.types.is_struct(kind):
        return StructOf(fields_of(kind))
    if pa.types.is_map(kind):
        return MapOf(_field_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return ListOf(_field_type(kind.value_type))
    for known, primitive in _EVIDENT:
        if kind == known:
            return primitive
    return DeclaredType(str(kind))
