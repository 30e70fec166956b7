"""Declared column types as Iceberg types, and whether a table's columns are what a pipeline expects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING

from pydantic import TypeAdapter
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from spark_jobs.config.type_names import split_arguments
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.metadata_columns import METADATA_COLUMNS, with_metadata_columns

if TYPE_CHECKING:
    from pyiceberg.table import Table

_PRIMITIVE: TypeAdapter[IcebergType] = TypeAdapter(IcebergType)


def iceberg_type(text: str) -> IcebergType:
    """Read a type as declared in ``columns``: ``long``, ``decimal(9, 2)``, ``list<struct<a: int>>``.

    Field ids in it are provisional. The text must have passed ``core.type_names.check_type_name``.
    """
    ids = count(1)
    return _read(text.strip(), lambda: next(ids))


def check_columns(table: Table, declared: Mapping[str, str], *, key_is_binary: bool = False) -> None:
    """Return when the table has Sluice's columns, and the declared ones where it has them, with these types.

    A struct may have more fields than were declared, at any depth: records brought them. Raises
    ``ConfigError`` naming the types that clash.
    """
    ours = with_metadata_columns(Schema(), key_is_binary=key_is_binary)
    expected = {name: ours.find_type(name) for name in METADATA_COLUMNS}
    expected |= {name: iceberg_type(text) for name, text in declared.items()}
    there = {field.name: field.field_type for field in table.schema().fields}
    for name, kind in expected.items():
        if name in METADATA_COLUMNS and name not in there:
            raise _clash(table, f"the table has no column {name}, which Sluice writes as {_shape(kind)}")
        if name in there and not _holds(there[name], kind):
            raise _clash(table, f"column {name} is {_shape(there[name])}, not {_shape(kind)}")


def _clash(table: Table, message: str) -> ConfigError:
    return ConfigError(
        message,
        code="column-clash",
        hint="Make the declared type the table's own, or give the pipeline another `table`.",
        table=".".join(table.name()),
    )


def _holds(there: IcebergType, declared: IcebergType) -> bool:
    """True if every value of the declared type is one of the table's."""
    if isinstance(there, StructType) and isinstance(declared, StructType):
        fields = {field.name: field.field_type for field in there.fields}
        return all(f.name in fields and _holds(fields[f.name], f.field_type) for f in declared.fields)
    if isinstance(there, ListType) and isinstance(declared, ListType):
        return _holds(there.element_type, declared.element_type)
    if isinstance(there, MapType) and isinstance(declared, MapType):
        is_same_key = _shape(there.key_type) == _shape(declared.key_type)
        return is_same_key and _holds(there.value_type, declared.value_type)
    return _shape(there) == _shape(declared)


def _shape(kind: IcebergType) -> str:
    """Return the type as declared in a configuration: names and types without field ids."""
    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{field.name}: {_shape(field.field_type)}' for field in kind.fields)}>"
    if isinstance(kind, ListType):
        return f"list<{_shape(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{_shape(kind.key_type)}, {_shape(kind.value_type)}>"
    return str(kind)


def _read(text: str, next_id: Callable[[], int]) -> IcebergType:
    kind, bracket, rest = text.partition("<")
    if not bracket:
        # PyIceberg's own reader knows the primitives' names; it wants decimals and fixed without blanks.
        return _PRIMITIVE.validate_python(text.replace(" ", ""))
    arguments = split_arguments(rest.rstrip()[:-1])
    if kind.strip() == "list":
        return ListType(next_id(), _read(arguments[0], next_id), element_required=False)
    if kind.strip() == "map":
        key, value = (_read(argument, next_id) for argument in arguments)
        return MapType(next_id(), key, next_id(), value, value_required=False)
    fields = (argument.partition(":") for argument in arguments)
    return StructType(
        *(
            NestedField(next_id(), name.strip(), _read(t.strip(), next_id), required=False)
            for name, _, t in fields
        )
    )
