"""A schema under the names that its fields have in a table, behind the seam of ``writer_schema``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from spark_jobs.schema.nested_arrays import entries_of, items_of, list_of, map_of
from spark_jobs.schema.writer_schema import Names, ReadValues, WriterColumns, WriterSchema


@dataclass(frozen=True, slots=True)
class Placed:
    """Its rows, and its columns, under other names."""

    schema: WriterSchema
    names: Names

    @property
    def columns(self) -> WriterColumns:
        """See ``WriterSchema``."""
        return _renamed_columns(self.schema, self.names)

    @property
    def reading(self) -> object:
        """See ``WriterSchema``."""
        return self.schema.reading, self.names

    def read(self, values: Sequence[bytes]) -> ReadValues:
        """See ``WriterSchema``."""
        read = self.schema.read(values)
        table = read.table
        made = {
            column: table.column(name) if _are_same(inside) else _renamed(table.column(name), inside)
            for name, column, inside in self.names
        }
        return replace(read, table=pa.table(made))

    def read_plain(self, value: bytes) -> Mapping[str, Any]:
        """See ``WriterSchema``."""
        return _renamed_row(self.schema.read_plain(value), self.schema.columns.struct, self.names)


def placed(schema: WriterSchema, names: Names) -> WriterSchema:
    """Return the schema under these names; itself where they are its own."""
    return schema if _are_same(names) else Placed(schema, names)


def _are_same(names: Names) -> bool:
    return all(name == column and _are_same(inside) for name, column, inside in names)


@lru_cache(256)
def _renamed_columns(schema: WriterSchema, names: Names) -> WriterColumns:
    columns = schema.columns
    return replace(columns, struct=_renamed_struct(columns.struct, names))


def _renamed_struct(struct: StructType, names: Names) -> StructType:
    by_name = {name: (column, inside) for name, column, inside in names}
    return StructType(*(_renamed_field(each, *by_name[each.name]) for each in struct.fields))


def _renamed_field(of: NestedField, name: str, inside: Names) -> NestedField:
    kind = _renamed_type(of.field_type, inside) if inside else of.field_type
    return NestedField(of.field_id, name, kind, required=of.required, doc=of.doc)


def _renamed_type(kind: IcebergType, inside: Names) -> IcebergType:
    if isinstance(kind, StructType):
        return _renamed_struct(kind, inside)
    if isinstance(kind, ListType):
        element = _renamed_type(kind.element_type, inside)
        return ListType(kind.element_id, element, element_required=kind.element_required)
    if isinstance(kind, MapType):
        item = _renamed_type(kind.value_type, inside)
        return MapType(kind.key_id, kind.key_type, kind.value_id, item, value_required=kind.value_required)
    return kind


def _renamed(column: pa.ChunkedArray, inside: Names) -> pa.ChunkedArray:
    parts = [_renamed_array(chunk, inside) for chunk in column.chunks]
    return pa.chunked_array(parts, None if parts else _renamed_array(pa.nulls(0, column.type), inside).type)


def _renamed_array(array: pa.Array, inside: Names) -> pa.Array:
    if pa.types.is_list(array.type):
        return list_of(array, _renamed_array(items_of(array), inside))
    if pa.types.is_map(array.type):
        keys, items = entries_of(array)
        return map_of(array, keys, _renamed_array(items, inside))
    parts = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
    made = {
        column: parts[name] if _are_same(deeper) else _renamed_array(parts[name], deeper)
        for name, column, deeper in inside
    }
    fields = [pa.field(name, part.type) for name, part in made.items()]
    return pa.StructArray.from_arrays([*made.values()], fields=fields, mask=array.is_null())


def _renamed_row(row: Mapping[str, Any], struct: StructType, names: Names) -> dict[str, Any]:
    kinds = {each.name: each.field_type for each in struct.fields}
    return {
        column: _renamed_item(row[name], kinds[name], inside) for name, column, inside in names if name in row
    }


def _renamed_item(item: Any, kind: IcebergType, inside: Names) -> Any:
    if item is None or _are_same(inside):
        return item
    if isinstance(kind, ListType):
        return [_renamed_item(each, kind.element_type, inside) for each in item]
    if isinstance(kind, MapType):
        entries = item.items() if isinstance(item, Mapping) else item
        return [(key, _renamed_item(each, kind.value_type, inside)) for key, each in entries]
    return _renamed_row(item, kind, inside) if isinstance(kind, StructType) else item
