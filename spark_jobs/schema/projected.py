"""Arrays as other types that have some of their fields, in any order, and fields they do not have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.schema.nested_arrays import items_of


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
        return pa.MapArray.from_arrays(_offsets(array), keys, items, type=wanted)
    if pa.types.is_list(wanted):
        values = project(items_of(array), wanted.value_type, key)
        return pa.ListArray.from_arrays(_offsets(array), values, type=wanted)
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


def _offsets(array: pa.ListArray) -> pa.Array:
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
