"""What became of a table's columns between two schemas, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """One column, nested ones by their dotted name; its id outlives a rename."""

    field_id: int
    name: str
    type_name: str


def schema_changes(before: Iterable[Column], after: Iterable[Column]) -> tuple[str, ...]:
    """One phrase per column that was added, dropped, renamed or given another type, in column order."""
    known = {column.field_id: column for column in before}
    now = list(after)
    changes = []
    for column in now:
        was = known.pop(column.field_id, None)
        if was is None:
            changes.append(f"added {column.name} ({column.type_name})")
            continue
        if was.name != column.name:
            changes.append(f"renamed {was.name} to {column.name}")
        if was.type_name != column.type_name:
            changes.append(f"changed {column.name} from {was.type_name} to {column.type_name}")
    return (*changes, *(f"dropped {column.name}" for column in known.values()))
