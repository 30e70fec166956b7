"""Finds observed fields without a column. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from spark_jobs.schema.evidence import Evidence, FieldEvidence, Kind, every_field
from spark_jobs.schema.inference import Field, ListOf, MapOf, StructOf, count_columns


def unknown_fields(
    columns: tuple[Field, ...], evidence: Mapping[str, FieldEvidence], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], FieldEvidence]]:
    """Yield non-null fields without a column by path; fields nested in one are not repeated."""
    known = {column.name: column.type for column in columns}
    for name, seen in evidence.items():
        here, kind, inside = (*path, name), known.get(name), seen
        if kind is None and says_something(seen):
            yield here, seen
        while isinstance(kind, ListOf) and inside.element is not None:
            here, kind, inside = (*here, "element"), kind.element, inside.element
        if isinstance(kind, StructOf):
            yield from unknown_fields(kind.fields, inside.fields, here)
        if isinstance(kind, MapOf) and isinstance(kind.value, StructOf):
            for value in inside.fields.values():
                yield from unknown_fields(kind.value.fields, value.fields, (*here, "value"))


def says_something(seen: FieldEvidence) -> bool:
    """True if any value of the field is more than null, an empty list or an empty object."""
    silent = {Kind.NULL, Kind.OBJECT, Kind.ARRAY}
    inside = (*seen.fields.values(), *(() if seen.element is None else (seen.element,)))
    return not seen.kinds.keys() <= silent or any(map(says_something, inside))


# A record that alone brings so many new fields that they are no columns: keys that are data.


# New fields that one record may bring which no other of its batch has.
MOST_ALONE = 100


def without_bursts(
    evidence: Evidence, columns: tuple[Field, ...], max_columns: int, *, most_alone: int = MOST_ALONE
) -> Evidence:
    """Return the evidence without new fields of records that bring too many.

    Those are more than ``most_alone`` that it alone has; or more than there is room for, at any depth, so
    that it cannot be a row itself. What more records have stays.
    """
    room = max_columns - count_columns(columns)
    unknown = dict(unknown_fields(columns, evidence.fields))  # once each: a map has it by many keys
    new = filter(says_something, every_field(unknown))
    return evidence.without_bursts(new, room, most_alone)
