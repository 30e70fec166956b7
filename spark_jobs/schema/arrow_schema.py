"""Arrow schemas of Iceberg tables, with the table's own field ids.

Always from ``table.schema()``: catalogs number the fields anew when a table is made. Strings, binaries and
lists have 32-bit offsets (Arrow's JSON reader knows no other lists, and a chunk is far below 2 GiB); in
Parquet the two are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import schema_to_pyarrow

from spark_jobs.schema.iceberg_types import METADATA_COLUMNS
from spark_jobs.schema.inference import DeclaredType, Field, FieldType, ListOf, MapOf, Primitive, StructOf

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table


def json_columns(table: Table) -> pa.Schema:
    """Return the columns that come from JSON, in the table's order."""
    return pa.schema([field for field in arrow_schema(table.schema()) if field.name not in METADATA_COLUMNS])


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of an Iceberg schema, field ids in the fields' metadata.

    Columns that were added later stand after the metadata columns: find columns by name.
    """
    return pa.schema([field.with_type(_short(field.type)) for field in schema_to_pyarrow(schema)])


def column_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return Python values, UUIDs as bytes, as a column: Arrow cannot build nested UUIDs or JSON."""
    return pa.array(values, _stored(kind)).cast(kind)


def no_rows(schema: pa.Schema) -> pa.Table:
    """Return a table without rows; unlike ``empty_table`` it supports nested UUIDs."""
    return pa.Table.from_arrays([column_of((), field.type) for field in schema], schema=schema)


def _stored(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    return _inside(kind, _stored)


def _short(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    return _inside(kind, _short)


def _inside(kind: pa.DataType, changed: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a nested type with converted fields and 32-bit list offsets; other types unchanged."""

    def change(field: pa.Field) -> pa.Field:
        return field.with_type(changed(field.type))

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


# Columns in one piece, and lists and maps made anew around other items, wherever an array was cut out.


def one_array(values: pa.ChunkedArray) -> pa.Array:
    """Return a column's values as one array."""
    joined = values.combine_chunks()
    return pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined


def items_of(values: pa.Array) -> pa.Array:
    """Return the items of all lists of an array, concatenated, as ``flatten`` does."""
    # Arrow makes an array anew where all lists are null, and knows how of no UUIDs.
    return column_of((), values.type.value_type) if values.null_count == len(values) else values.flatten()


def entries_of(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the keys and the items of all maps of an array, concatenated."""
    keys, items = items_of(as_lists(values)).flatten()
    return keys, items


def as_lists(values: pa.Array) -> pa.Array:
    """Return maps as lists of entries, and lists unchanged."""
    if not pa.types.is_map(values.type):
        return values
    return values.cast(pa.list_(pa.struct([values.type.key_field, values.type.item_field])))


def _offsets(values: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(as_lists(values)), 0)
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])


# Arrays as other types that have some of their fields, in any order, and fields they do not have.


def field_id(field: pa.Field) -> int:
    """Return Iceberg's field id, or -1."""
    return int((field.metadata or {}).get(b"PARQUET:field_id", -1))


def remade(
    values: pa.Array,
    kind: pa.DataType,
    inner: Callable[[pa.Array, pa.DataType, str], pa.Array],
    key: Callable[[pa.Field], object] = attrgetter("name"),
) -> pa.Array | None:
    """Return a nested array as another type with the same nesting, or None if it differs.

    ``inner`` makes what is inside, of the type it has there, known by a field's name, ``element``, ``key`` or
    ``value``. Fields are found by ``key``; what is not there is null.
    """
    have = values.type
    if pa.types.is_struct(have) and pa.types.is_struct(kind):
        there = {key(field): part for field, part in zip(have, values.flatten(), strict=True)}
        parts = [
            inner(there[key(field)], field.type, field.name)
            if key(field) in there
            else pa.nulls(len(values), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=values.is_null())
    if (pa.types.is_list(have) or pa.types.is_large_list(have)) and pa.types.is_list(kind):
        items = inner(items_of(values), kind.value_type, "element")
        return pa.ListArray.from_arrays(_offsets(values), items, type=kind, mask=values.is_null())
    if pa.types.is_map(have) and pa.types.is_map(kind):
        keys, items = entries_of(values)
        made = inner(keys, kind.key_type, "key"), inner(items, kind.item_type, "value")
        return pa.MapArray.from_arrays(_offsets(values), *made, type=kind, mask=values.is_null())
    return None


def project(array: pa.Array, wanted: pa.DataType, key: Callable[[pa.Field], object] = field_id) -> pa.Array:
    """Return the values as ``wanted``: fields are found by ``key``, missing ones are null."""
    projected = remade(array, wanted, lambda inside, kind, _: project(inside, kind, key), key)
    return array.cast(wanted) if projected is None else projected


def renamed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the values under other names, inside structs too, without copying."""
    columns = []
    for column, wanted in zip(rows.columns, schema, strict=True):
        is_same = column.type == wanted.type
        chunks = column.chunks if is_same else [chunk.view(wanted.type) for chunk in column.chunks]
        columns.append(pa.chunked_array(chunks, wanted.type))
    return pa.Table.from_arrays(columns, schema=schema)
