"""The column types that follow from what was seen of JSON fields. Pure.

A field of which only nulls, empty lists and empty objects were seen has no type and gets no column: nothing
of it is lost, and the column appears with its first value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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

UNBOUNDED = 1 << 62


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


def choose_types(
    evidence: Evidence, declared: tuple[Field, ...] = (), *, max_columns: int = UNBOUNDED
) -> tuple[Field, ...]:
    """Return the columns of a new table: the declared ones as they are, then the others as first seen.

    Of more than ``max_columns``, those inside structs counted, the most frequent ones.

    Integers become long, and double where there are more fractions than integers that no double is equal to;
    strings become timestamptz when all of them are ISO 8601 with time and zone. Of kinds that do not go
    together the most frequent wins.
    """
    names = _Names(_dotted((), declared), max_columns)
    return (*declared, *_new_fields(evidence.fields, declared, (), names, timestamps=True))


def evolve(
    columns: tuple[Field, ...], evidence: Evidence, *, max_columns: int = UNBOUNDED
) -> tuple[Addition, ...]:
    """Return the columns to add to a table for what was seen; none is ever timestamptz.

    Empty when every field that has a type has a column, or can have none: see ``name_clash``, and
    ``max_columns``, those inside structs counted.
    """
    return tuple(_additions(evidence.fields, columns, (), _Names(_dotted((), columns), max_columns)))


def count_columns(columns: tuple[Field, ...]) -> int:
    """Return how many columns these are, with those inside structs."""
    return len(_dotted((), columns))


def by_lower_case(columns: Iterable[Field]) -> dict[str, str]:
    """Return the columns' names by what no other may be, whatever its case."""
    return {column.name.lower(): column.name for column in columns}


def name_clash(name: str, siblings: Mapping[str, str], *, is_top: bool) -> str | None:
    """Why a key cannot become a column beside these (see ``by_lower_case``), or None."""
    if (message := _never_a_column(name, is_top=is_top)) is not None:
        return message
    sibling = siblings.get(name.lower(), name)
    return None if sibling == name else f"{name} differs from column {sibling} only by case"


def _never_a_column(name: str, *, is_top: bool) -> str | None:
    if not name:
        return "an empty key cannot name a column"
    if is_top and name.lower() in RESERVED_COLUMNS:
        return f"{name} is the name of one of Sluice's own columns"
    return None


class _Names:
    """The dotted names that columns have, in lower case, and room for so many of them.

    What a struct would take, if it became a column, is laid over what is taken: nothing is copied.
    """

    def __init__(self, names: set[str], max_columns: int, under: _Names | None = None) -> None:
        self._names = names
        self._under = under
        self._max_columns = max_columns

    def __contains__(self, name: str) -> bool:
        return name in self._names or (self._under is not None and name in self._under)

    def __len__(self) -> int:
        return len(self._names) + (0 if self._under is None else len(self._under))

    @property
    def are_full(self) -> bool:
        return len(self) >= self._max_columns

    def over(self, *names: str) -> _Names:
        return _Names(set(names), self._max_columns, self)

    def add(self, names: set[str]) -> None:
        self._names |= names


def _additions(
    evidence: Mapping[str, FieldEvidence], columns: tuple[Field, ...], path: tuple[str, ...], taken: _Names
) -> Iterator[Addition]:
    for column in columns:
        if column.name in evidence:
            yield from _inside(evidence[column.name], column.type, (*path, column.name), taken)
    for new in _new_fields(evidence, columns, path, taken, timestamps=False):
        yield Addition((*path, new.name), new.type)


def _inside(
    evidence: FieldEvidence, known: FieldType, path: tuple[str, ...], taken: _Names
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
    taken: _Names,
    *,
    timestamps: bool,
) -> tuple[Field, ...]:
    """Fields that get a column beside ``siblings``, in the order they were first seen.

    Of names that clash with each other, and of more than there is room for, the most frequent get it.
    """
    added: list[Field] = []
    known = {sibling.name for sibling in siblings}
    unknown = {name: seen for name, seen in evidence.items() if name not in known}
    for name in sorted(unknown, key=lambda n: (-unknown[n].count(*Kind), unknown[n].order, n)):
        if taken.are_full:
            break
        dotted = ".".join((*path, name)).lower()
        # Iceberg finds fields by their dotted path: a key "a.b" and a key "b" inside "a" cannot both be.
        if dotted in taken or _never_a_column(name, is_top=not path):
            continue
        kind = _type_of(unknown[name], (*path, name), taken.over(dotted), timestamps=timestamps)
        if kind is None:
            continue
        names = _dotted(path, (Field(name, kind),))
        if not any(each in taken for each in names):
            taken.add(names)
            added.append(Field(name, kind))
    return tuple(sorted(added, key=lambda new: (unknown[new.name].order, new.name)))


def _type_of(
    evidence: FieldEvidence, path: tuple[str, ...], taken: _Names, *, timestamps: bool
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
    evidence: FieldEvidence, path: tuple[str, ...], taken: _Names, *, timestamps: bool
) -> StructOf | None:
    fields = _new_fields(evidence.fields, (), path, taken.over(), timestamps=timestamps)
    return StructOf(fields) if fields else None


def _list_of(
    evidence: FieldEvidence, path: tuple[str, ...], taken: _Names, *, timestamps: bool
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
