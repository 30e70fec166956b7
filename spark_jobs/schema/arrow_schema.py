"""Arrow schemas of Iceberg tables, with the table's own field ids.

Always from ``table.schema()``: catalogs number the fields anew when a table is made. Strings, binaries and
lists have 32-bit offsets (Arrow's JSON reader knows no other lists, and a chunk is far below 2 GiB); in
Parquet the two are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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


# Columns in one piece, and lists and maps made anew around other items, wherever an array was cut out.


def one_array(values: pa.ChunkedArray) -> pa.Array:
    """Return a column's values in one piece."""
    joined = values.combine_chunks()
    return pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined


def items_of(values: pa.Array) -> pa.Array:
    """Return the items of all of an array's lists, one after the other, as ``flatten`` gives them."""
    # Arrow makes an array anew where all lists are null, and knows how of no UUIDs.
    return column_of((), values.type.value_type) if values.null_count == len(values) else values.flatten()


def list_of(values: pa.Array, items: pa.Array, kind: pa.DataType | None = None) -> pa.Array:
    """Return a list array like ``values`` with these instead of its ``items_of``."""
    kind = kind or pa.list_(values.type.value_field.with_type(items.type))
    return pa.ListArray.from_arrays(_offsets(values), items, type=kind, mask=values.is_null())


def entries_of(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the keys and the items of all of an array's maps, one after the other."""
    keys, items = items_of(_as_lists(values)).flatten()
    return keys, items


def map_of(values: pa.Array, keys: pa.Array, items: pa.Array, kind: pa.DataType | None = None) -> pa.Array:
    """Return a map array like ``values`` with these instead of its ``entries_of``."""
    kind = kind or pa.map_(
        values.type.key_field.with_type(keys.type), values.type.item_field.with_type(items.type)
    )
    return pa.MapArray.from_arrays(_offsets(_as_lists(values)), keys, items, type=kind, mask=values.is_null())


def _as_lists(values: pa.Array) -> pa.Array:
    return values.cast(pa.list_(pa.struct([values.type.key_field, values.type.item_field])))


def _offsets(values: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(values), 0)
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths).cast(pa.int32())])


# Arrays as other types that have some of their fields, in any order, and fields they do not have.


def field_id(field: pa.Field) -> int:
    """Return Iceberg's id of a field, -1 where it has none."""
    return int((field.metadata or {}).get(b"PARQUET:field_id", -1))


def project(array: pa.Array, wanted: pa.DataType, key: Callable[[pa.Field], object] = field_id) -> pa.Array:
    """The same values as ``wanted``: fields found by ``key``, null what is not there and where null was."""
    if pa.types.is_struct(wanted):
        return _project_struct(array, wanted, key)
    if pa.types.is_map(wanted):
        entries = items_of(_as_list(array))
        keys = project(entries.field(0), wanted.key_type, key)
        items = project(entries.field(1), wanted.item_type, key)
        return pa.MapArray.from_arrays(_list_offsets(array), keys, items, type=wanted)
    if pa.types.is_list(wanted):
        values = project(items_of(array), wanted.value_type, key)
        return pa.ListArray.from_arrays(_list_offsets(array), values, type=wanted)
    return array.cast(wanted)


def _project_struct(
    array: pa.StructArray, wanted: pa.StructType, key: Callable[[pa.Field], object]
) -> pa.StructArray:
    there = {key(array.type.field(i)): i for i in range(array.type.num_fields)}
    children = [
        project(array.field(there[key(field)]), field.type, key)
        if key(field) in there
        else pa.nulls(len(array), field.type)
        for field in wanted
    ]
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=array.is_null())


def _list_offsets(array: pa.ListArray) -> pa.Array:
    """Where each list begins among the flattened values, null for a null list, and where the last ends."""
    lengths = pc.fill_null(pc.list_value_length(_as_list(array)), 0).to_numpy()
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    is_null = np.concatenate([array.is_null().to_numpy(zero_copy_only=False), [False]])
    return pa.array(ends, pa.int32(), mask=is_null)


def _as_list(array: pa.Array) -> pa.Array:
    if not pa.types.is_map(array.type):
        return array
    return array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))


def renamed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the same values under other names, inside structs too; nothing is copied."""
    columns = []
    for column, wanted in zip(rows.columns, schema, strict=True):
        is_same = column.type == wanted.type
        chunks = column.chunks if is_same else [chunk.view(wanted.type) for chunk in column.chunks]
        columns.append(pa.chunked_array(chunks, wanted.type))
    return pa.Table.from_arrays(columns, schema=schema)
