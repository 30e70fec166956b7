"""A schema under its fields' names in a table, behind the interface of ``writer_schema``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, IcebergType, ListType, MapType, NestedField, StringType, StructType

from spark_jobs.schema.arrow_schema import arrow_schema, one_array, renamed
from spark_jobs.schema.writer_schema import (
    Names,
    ReadValues,
    Unread,
    UnreadableValueError,
    WriterColumns,
    WriterSchema,
)


@dataclass(frozen=True, slots=True)
class Placed:
    """A schema with its rows and columns under other names."""

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
        return replace(read, table=renamed(read.table, _arrow_schema(self)))

    def read_plain(self, value: bytes) -> Mapping[str, Any]:
        """See ``WriterSchema``."""
        return _renamed_row(self.schema.read_plain(value), self.schema.columns.struct, self.names)


def placed(schema: WriterSchema, names: Names) -> WriterSchema:
    """Return the schema under these names; unchanged if they are its own."""
    return schema if _are_same(names) else Placed(schema, names)


def _are_same(names: Names) -> bool:
    return all(name == column and _are_same(inside) for name, column, inside in names)


@lru_cache(256)
def _arrow_schema(schema: Placed | OneColumn) -> pa.Schema:
    return arrow_schema(Schema(*schema.columns.struct.fields))


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


# All that a schema says as one column, behind the seam of ``writer_schema``: a key beside its value.


OF_KEY = "key/"


@dataclass(frozen=True, slots=True)
class OneColumn:
    """A record becomes a struct of that name, any other value a column; with ``is_struct`` also a struct."""

    schema: WriterSchema
    name: str
    is_struct: bool = False

    @property
    def columns(self) -> WriterColumns:
        """See ``WriterSchema``; identities begin with ``key/`` to differ from those of values."""
        return _inside(self.schema, self.name, self._is_bare)

    @property
    def _is_bare(self) -> bool:
        return self.schema.columns.is_whole and not self.is_struct

    @property
    def reading(self) -> object:
        """See ``WriterSchema``."""
        return self.schema.reading, self.name, self.is_struct

    def read(self, values: Sequence[bytes]) -> ReadValues:
        """See ``WriterSchema``."""
        read = self.schema.read(values)
        (kind,) = _arrow_schema(self).types
        if self._is_bare:
            column = read.table.column(0)
        else:
            parts = read.table.combine_chunks()
            arrays = [one_array(part) for part in parts.columns]
            column = pa.StructArray.from_arrays(arrays, fields=list(kind))
        return ReadValues(pa.table({self.name: column}), read.rows, read.unread, read.ignored)

    def read_plain(self, value: bytes) -> Mapping[str, Any]:
        """See ``WriterSchema``."""
        row = self.schema.read_plain(value)
        return {self.name: next(iter(row.values())) if self._is_bare else row}


KeyStruct = partial(OneColumn, is_struct=True)


@lru_cache(256)
def _inside(schema: WriterSchema, name: str, is_bare: bool) -> WriterColumns:
    columns = schema.columns
    if is_bare:
        (only,) = columns.struct.fields
        field = NestedField(only.field_id, name, only.field_type, required=False, doc=only.doc)
    else:
        top = Schema(*columns.struct.fields).highest_field_id + 1
        field = NestedField(top, name, columns.struct, required=False)
    return WriterColumns(
        StructType(field),
        {key: f"{OF_KEY}{path}" for key, path in columns.identities.items()} | {field.field_id: OF_KEY},
        {key: tuple(f"{OF_KEY}{path}" for path in paths) for key, paths in columns.aliases.items()},
        tuple(f"{name}.{path}" for path in columns.as_text),
    )


# Values that are one column, ``value``: text or bytes, behind the seam of ``writer_schema``.


VALUE = "value"
_NO_TEXT = "the value is not UTF-8"


@dataclass(frozen=True, slots=True)
class WholeValue:
    """Every value is a row; with ``is_text``, every value in UTF-8."""

    is_text: bool

    @property
    def columns(self) -> WriterColumns:
        """See ``WriterSchema``."""
        kind = StringType() if self.is_text else BinaryType()
        column = NestedField(1, VALUE, kind, required=False, doc="the record's value")
        return WriterColumns(StructType(column), {1: VALUE}, is_whole=True)

    @property
    def reading(self) -> object:
        """See ``WriterSchema``."""
        return self

    def read(self, values: Sequence[bytes]) -> ReadValues:
        """See ``WriterSchema``."""
        bad = [index for index, value in enumerate(values) if not is_text(value)] if self.is_text else []
        left_out = set(bad)
        rows = [index for index in range(len(values)) if index not in left_out] if bad else None
        good = values if rows is None else [values[index] for index in rows]
        column = pa.array(good, pa.binary()).cast(pa.string() if self.is_text else pa.binary())
        unread = tuple(Unread(index, None, _NO_TEXT) for index in bad)
        return ReadValues(pa.table({VALUE: column}), rows, unread)

    def read_plain(self, value: bytes) -> Mapping[str, Any]:
        """See ``WriterSchema``."""
        try:
            return {VALUE: value.decode() if self.is_text else value}
        except UnicodeDecodeError:
            raise UnreadableValueError(_NO_TEXT) from None


def is_text(value: bytes | None) -> bool:
    """True if a value is UTF-8 or None."""
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False
