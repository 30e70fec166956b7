"""Properties that a value has in objects whose schema allows no others than it names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spark_jobs.json_schema.parsing import Array, Map, Record, Type


def are_closed(kind: Type) -> set[bool]:
    """Return whether objects in a type are closed: both, where some are."""
    match kind:
        case Record(fields, is_closed):
            return {is_closed}.union(*(are_closed(each.type) for each in fields))
        case Array(inner) | Map(inner):
            return are_closed(inner)
    return set()


def forbidden(value: Any, kind: Type, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield what closed objects have beside what is named, and where; other types are passed over."""
    match kind:
        case Record(fields, is_closed) if isinstance(value, dict):
            types = {each.name: each.type for each in fields}
            for name, item in value.items():
                if name in types:
                    yield from forbidden(item, types[name], (*path, name))
                elif is_closed:
                    yield (*path, name), item
        case Array(items) if isinstance(value, list):
            for item in value:
                yield from forbidden(item, items, (*path, "element"))
        case Map(values) if isinstance(value, dict):
            for name, item in value.items():
                yield from forbidden(item, values, (*path, name))
