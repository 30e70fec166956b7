"""A table's columns, read off its Arrow schema, in the terms evidence is compared with."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from spark_jobs.schema.inference import DeclaredType, Field, FieldType, ListOf, MapOf, Primitive, StructOf

_PRIMITIVES = (
    (pa.string(), Primitive.STRING),
    (pa.large_string(), Primitive.STRING),
    (pa.int64(), Primitive.LONG),
    (pa.float64(), Primitive.DOUBLE),
    (pa.bool_(), Primitive.BOOLEAN),
    (pa.timestamp("us", "UTC"), Primitive.TIMESTAMPTZ),
)


def fields_of(columns: Iterable[pa.Field]) -> tuple[Field, ...]:
    """Return the columns of a schema or struct, as ``spark_jobs.schema.inference.evolve`` takes them."""
    return tuple(Field(column.name, _type_of(column.type)) for column in columns)


def _type_of(kind: pa.DataType) -> FieldType:
    if pa.types.is_struct(kind):
        return StructOf(fields_of(kind))
    if pa.types.is_map(kind):
        return MapOf(_type_of(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return ListOf(_type_of(kind.value_type))
    for known, primitive in _PRIMITIVES:
        if kind == known:
            return primitive
    return DeclaredType(str(kind))
