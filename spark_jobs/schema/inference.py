"""The column types that follow from what was seen of JSON fields. Pure.

A field of which only nulls, empty lists and empty objects were seen has no type and gets no column: nothing
of it is lost, and the column appears with its first value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from spark_jobs.schema.evidence import Evidence, FieldEvidence, Kind

RESERVED_COLUMNS = (
    "_kafka_topic",
    "_kafka_partition",
    "_kafka_offset",
    "_kafka_generation",
    "_kafka_timestamp",
    "_kafka_key",
    "_kafka_headers",
    "_ingested_at",
)


class Primitive(StrEnum):
    """Types that evidence can lead to, by their Iceberg names."""

    STRING = "string"
    LONG = "long"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    TIMESTAMPTZ = "timestamptz"


@dataclass(frozen=True, slots=True)
class StructOf:
    """An object whose keys are columns of their own."""

    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """An array."""

    element: FieldType


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object whose keys are data; only a declaration makes it."""

    value: FieldType


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """A type that only a declaration makes (``int``, ``date``, ``decimal(9, 2)``), by its Iceberg name."""

    name: str


FieldType: TypeAlias = Primitive | StructOf | ListOf | MapOf | DeclaredType


@dataclass(frozen=True, slots=True)
class Field:
    """A named type."""

    name: str
    type: FieldType


@dataclass(frozen=True, slots=True)
class Addition:
    """A column to add; ``path`` from the top, through lists by ``element`` and through maps by ``value``."""

    path: tuple[str, ...]
    type: FieldType


def choose_types(evidence: Evidence, declared: tuple[Field, ...] = ()) -> tuple[Field, ...]:
    """Return the columns of a new table: the declared ones as they are, then the others as first seen.

    Integers become long, and double where there are more fractions than integers that no double is equal to;
    strings become timestamptz when all of them are ISO 8601 with time and zone. Of kinds that do not go
    together the most frequent wins.
    """
    return (*declared, *_new_fields(evidence.fields, declared, (), _dotted((), declared), timestamps=True))


def evolve(columns: tuple[Field, ...], evidence: Evidence) -> tuple[Addition, ...]:
    """Return the columns to add to a table for what was seen; none is ever timestamptz.

    Empty when every field that has a type has a column, or can have none (see ``name_clash``).
    """
    return tuple(_additions(evidence.fields, columns, (), _dotted((), columns)))


def name_clash(name: str, siblings: tuple[Field, ...], *, is_top: bool) -> str | None:
    """Why a key cannot become a column beside these, or None."""
    if not name:
        return "an empty key cannot name a column"
    if is_top and name.lower() in RESERVED_COLUMNS:
        return f"{name} is the name of one of Sluice's own columns"
    for sibling in siblings:
        if sibling.name != name and sibling.name.lower() == name.lower():
            return f"{name} differs from column {sibling.name} only by case"
    return None


def _additions(
    evidence: Mapping[str, FieldEvidence], columns: tuple[Field, ...], path: tuple[str, ...], taken: set[str]
) -> Iterator[Addition]:
    for column in columns:
        if column.name in evidence:
            yield from _inside(evidence[column.name], column.type, (*path, column.name), taken)
    for new in _new_fields(evidence, columns, path, taken, timestamps=False):
        yield Addition((*path, new.name), new.type)


def _inside(
    evidence: FieldEvidence, known: FieldType, path: tuple[str, ...], taken: set[str]
) -> Iterator[Addition]:
    if isinstance(known, StructOf):
        yield from _additions(evidence.fields, known.fields, path, taken)
    elif isinstance(known, ListOf) and evidence.element is not None:
        yield from _inside(evidence.element, known.element, (*path, "element"), taken)
    elif isinstance(known, MapOf) and evidence.fields:
        values = iter(evidence.fields.values())
        merged = next(values)
        for value in values:
            merged = merged.merge(value)
        yield from _inside(merged, known.value, (*path, "value"), taken)


def _new_fields(
    evidence: Mapping[str, FieldEvidence],
    siblings: tuple[Field, ...],
    path: tuple[str, ...],
    taken: set[str],
    *,
    timestamps: bool,
) -> tuple[Field, ...]:
    """Fields that get a column beside ``siblings``, in the order they were first seen.

    Of names that clash with each other the most frequent one gets it.
    """
    accepted = siblings
    known = {sibling.name for sibling in siblings}
    unknown = {name: seen for name, seen in evidence.items() if name not in known}
    for name in sorted(unknown, key=lambda n: (-unknown[n].count(*Kind), unknown[n].order, n)):
        kind = _type_of(unknown[name], (*path, name), taken, timestamps=timestamps)
        if kind is None or name_clash(name, accepted, is_top=not path):
            continue
        # Iceberg finds fields by their dotted path: a key "a.b" and a key "b" inside "a" cannot both be.
        names = _dotted(path, (Field(name, kind),))
        if not names & taken:
            taken |= names
            accepted = (*accepted, Field(name, kind))
    added = accepted[len(siblings) :]
    return tuple(sorted(added, key=lambda new: (unknown[new.name].order, new.name)))


def _type_of(
    evidence: FieldEvidence, path: tuple[str, ...], taken: set[str], *, timestamps: bool
) -> FieldType | None:
    """Return the type that fits most values, or None when it is none's; the order here settles ties.

    Of long and double the one under which fewer values become dead letters, and of equals long, under which
    no fraction is rounded. Integers past 64 bits fit neither.
    """
    count = evidence.count
    text = Primitive.STRING
    if timestamps and not count(Kind.STRING):
        text = Primitive.TIMESTAMPTZ
    candidates: list[tuple[int, FieldType | None]] = [
        (count(Kind.STRING, Kind.TIMESTAMP), text),
        (count(Kind.OBJECT), _struct_of(evidence, path, taken, timestamps=timestamps)),
        (count(Kind.ARRAY), _list_of(evidence, path, taken, timestamps=timestamps)),
        (count(Kind.LONG, Kind.WIDE_LONG), Primitive.LONG),
        (count(Kind.LONG, Kind.DOUBLE), Primitive.DOUBLE),
        (count(Kind.BOOLEAN), Primitive.BOOLEAN),
    ]
    possible = [(votes, kind) for votes, kind in candidates if votes and kind is not None]
    return max(possible, key=lambda candidate: candidate[0])[1] if possible else None


def _struct_of(
    evidence: FieldEvidence, path: tuple[str, ...], taken: set[str], *, timestamps: bool
) -> StructOf | None:
    # A copy: whether this struct gets a column at all is not decided yet.
    fields = _new_fields(evidence.fields, (), path, set(taken), timestamps=timestamps)
    return StructOf(fields) if fields else None


def _list_of(
    evidence: FieldEvidence, path: tuple[str, ...], taken: set[str], *, timestamps: bool
) -> ListOf | None:
    if evidence.element is None:
        return None
    element = _type_of(evidence.element, (*path, "element"), taken, timestamps=timestamps)
    return None if element is None else ListOf(element)


def _dotted(path: tuple[str, ...], fields: tuple[Field, ...]) -> set[str]:
    """Return the dotted names, in lower case, of these fields and all inside them."""
    names = set()
    for each in fields:
        inner = (*path, each.name)
        kind = each.type
        names.add(".".join(inner).lower())
        while isinstance(kind, ListOf | MapOf):
            inner = (*inner, "element" if isinstance(kind, ListOf) else "value")
            kind = kind.element if isinstance(kind, ListOf) else kind.value
        if isinstance(kind, StructOf):
            names |= _dotted(inner, kind.fields)
    return names
