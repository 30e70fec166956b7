"""The columns that a schema has and a table lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyiceberg.types import IcebergType, ListType, MapType, StructType

from spark_jobs.schema.inference import (
    Field,
    FieldType,
    ListOf,
    MapOf,
    StructOf,
    by_lower_case,
    count_columns,
    name_clash,
)


def missing_columns(
    known: Sequence[Field], written: StructType, *, max_columns: int
) -> Iterator[tuple[tuple[str, ...], IcebergType]]:
    """Yield paths and types of the columns to add, through lists by ``element``, through maps by ``value``.

    A name that cannot stand beside the table's own is left out, and so is what there is no room for: see
    ``name_clash`` and ``max_columns``, columns inside structs counted.
    """
    room = max_columns - count_columns(tuple(known))
    for path, kind in _missing(known, written, ()):
        room -= _count(kind)
        if room >= 0:
            yield path, kind


def _missing(
    known: Sequence[Field], written: StructType, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], IcebergType]]:
    types = {field.name: field.type for field in known}
    names = by_lower_case(known)
    for field in written.fields:
        if field.name in types:
            yield from _inside(types[field.name], field.field_type, (*path, field.name))
        elif name_clash(field.name, names, is_top=not path) is None:
            yield (*path, field.name), field.field_type


def _inside(
    known: FieldType, written: IcebergType, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], IcebergType]]:
    if isinstance(known, StructOf) and isinstance(written, StructType):
        yield from _missing(known.fields, written, path)
    elif isinstance(known, ListOf) and isinstance(written, ListType):
        yield from _inside(known.element, written.element_type, (*path, "element"))
    elif isinstance(known, MapOf) and isinstance(written, MapType):
        yield from _inside(known.value, written.value_type, (*path, "value"))


def _count(kind: IcebergType) -> int:
    if isinstance(kind, StructType):
        return 1 + sum(_count(field.field_type) for field in kind.fields)
    if isinstance(kind, ListType):
        return max(1, _count(kind.element_type))
    return max(1, _count(kind.value_type)) if isinstance(kind, MapType) else 1
