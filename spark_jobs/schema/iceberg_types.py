"""Between the types evidence and declarations speak of and Iceberg's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from pyiceberg.schema import Schema
from pyiceberg.types import (
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from spark_jobs.schema.declared import iceberg_type as columns_type
from spark_jobs.schema.inference import DeclaredType, Field, FieldType, ListOf, MapOf, Primitive, StructOf
from spark_jobs.schema.metadata_columns import METADATA_COLUMNS

_BY_NAME: dict[str, Primitive] = {primitive.value: primitive for primitive in Primitive}


def iceberg_schema(fields: Sequence[Field]) -> Schema:
    """Return a schema of optional columns; ids are provisional, catalogs number anew."""
    ids = count(1)
    return Schema(*(_nested_field(field, ids) for field in fields))


def iceberg_type(kind: FieldType) -> IcebergType:
    """Return one type, for a column that is being added; nested ids are provisional."""
    return _iceberg_type(kind, count(1))


def known_fields(schema: Schema) -> tuple[Field, ...]:
    """Return the columns of a table that come from the JSON."""
    return tuple(
        Field(field.name, _field_type(field.field_type))
        for field in schema.fields
        if field.name not in METADATA_COLUMNS
    )


def declared_fields(columns: Mapping[str, str]) -> tuple[Field, ...]:
    """Return the configuration's ``columns``, whose type names were checked when it was read."""
    return tuple(Field(name, _field_type(columns_type(text))) for name, text in columns.items())


def _nested_field(field: Field, ids: Iterator[int]) -> NestedField:
    field_id = next(ids)
    return NestedField(field_id, field.name, _iceberg_type(field.type, ids), required=False)


def _iceberg_type(kind: FieldType, ids: Iterator[int]) -> IcebergType:
    if isinstance(kind, Primitive | DeclaredType):
        return columns_type(kind.value if isinstance(kind, Primitive) else kind.name)
    if isinstance(kind, StructOf):
        return StructType(*(_nested_field(field, ids) for field in kind.fields))
    if isinstance(kind, ListOf):
        return ListType(next(ids), _iceberg_type(kind.element, ids), element_required=False)
    return MapType(next(ids), StringType(), next(ids), _iceberg_type(kind.value, ids), value_required=False)


def _field_type(kind: IcebergType) -> FieldType:
    if isinstance(kind, StructType):
        return StructOf(tuple(Field(field.name, _field_type(field.field_type)) for field in kind.fields))
    if isinstance(kind, ListType):
        return ListOf(_field_type(kind.element_type))
    if isinstance(kind, MapType):
        return MapOf(_field_type(kind.value_type))
    return _BY_NAME.get(str(kind)) or DeclaredType(str(kind))
