"""Rows of a table in the types that DuckDB answers with, for answers that it had no part in."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pyarrow as pa


def answered_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of an answer with these columns of a table."""
    return pa.schema([pa.field(field.name, _answered(field.type)) for field in schema])


def as_answered(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with the schema's columns, which are such an answer's."""
    return pa.Table.from_arrays([_column(rows.column(f.name), f.type) for f in schema], schema=schema)


def _answered(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind) or kind == pa.uuid():
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("l", _answered(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _answered(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_answered(kind.key_type), _answered(kind.item_type))
    return kind


def _column(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    if "arrow.uuid" not in str(column.type):
        return column.cast(kind)
    # Arrow would take a UUID's bytes for its text.
    return pa.chunked_array([pa.array(map(_told, column.to_pylist()), kind)])


def _told(value: Any) -> Any:
    match value:
        case UUID():
            return str(value)
        case list() | tuple():
            return type(value)(map(_told, value))
        case dict():
            return {name: _told(inner) for name, inner in value.items()}
    return value
