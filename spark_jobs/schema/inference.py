"""Infers column types from evidence on JSON fields. Pure.

A field of which only nulls, empty lists and empty objects were seen has no type and gets no column: nothing
of it is lost, and the column appears with its first value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from pyiceberg.schema import make_compatible_name

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
MAX_NAME_BYTES = 255


class Primitive(StrEnum):
    """Types that can follow from evidence, by their Iceberg names."""

    STRING = "string"
    LONG = "long"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    TIMESTAMPTZ = "timestamptz"


@dataclass(frozen=True, slots=True)
class StructOf:
    """An object whose keys are columns."""

    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """An array."""

    element: FieldType


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object whose keys are data; requires a declaration."""

    value: FieldType


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """A type that requires a declaration (``int``, ``date``, ``decimal(9, 2)``), by its Iceberg name."""

    name: str


_Taken: TypeAlias = Iterable[tuple[str, bool]]
FieldType: TypeAlias = Primitive | StructOf | ListOf | MapOf | DeclaredType


@dataclass(frozen=True, slots=True)
class Field:
    """A named type."""

    name: str
    type: FieldType


@dataclass(frozen=True, slots=True)
class Addition:
    """A column to add; ``path`` is from the top; lists add ``element``, maps ``value``."""

    path: tuple[str, ...]
    type: FieldType


def choose_types(
    evidence: Evidence, declared: tuple[Field, ...] = (), *, max_columns: int = UNBOUNDED
) -> tuple[Field, ...]:
    """Return the columns of a new table: declared ones unchanged, then others by first appearance.

    Of more than ``max_columns``, those inside structs counted, the most frequent ones.

    Integers become long, and double where there are more fractions than integers that no double is equal to;
    strings become timestamptz when all of them are ISO 8601 with time and zone. Of kinds that do not go
    together the most frequent wins.
    """
    names = _Names(_dotted((), declared), max_columns, timestamps=True)
    return (*declared, *_new_fields(evidence.fields, declared, (), names))


def evolve(
    columns: tuple[Field, ...], evidence: Evidence, *, max_columns: int = UNBOUNDED
) -> tuple[Addition, ...]:
    """Return the columns to add to a table for the evidence; none is ever timestamptz.

    Empty when every field that has a type has a column, or can have none: see ``name_clash``, and
    ``max_columns``, those inside structs counted.
    """
    names = _Names(_dotted((), columns), max_columns, timestamps=False)
    return tuple(_additions(evidence.fields, columns, (), names))


def count_columns(columns: tuple[Field, ...]) -> int:
    """Return the number of columns, nested ones included."""
    return sum(is_column for _, is_column in _dotted((), columns))


def by_lower_case(columns: Iterable[Field]) -> dict[str, str]:
    """Return column names by their lower-case file name, which must be unique."""
    return {_in_files(column.name).lower(): column.name for column in columns}


def name_clash(name: str, siblings: Mapping[str, str], *, is_top: bool) -> str | None:
    """Return why a key cannot become a column next to these (see ``by_lower_case``), or None."""
    if (message := _never_a_column(name, is_top=is_top)) is not None:
        return message
    sibling = siblings.get(_in_files(name).lower(), name)
    if sibling == name:
        return None
    if sibling.lower() == name.lower():
        return f"{name} differs only in case from column {sibling}"
    return f"{name} and column {sibling} have one name in the table's files, {_in_files(name)}"


def _in_files(name: str) -> str:
    return make_compatible_name(name) if name else name


def _never_a_column(name: str, *, is_top: bool) -> str | None:
    if not name:
        return "an empty key cannot name a column"
    if is_top and name.lower() in RESERVED_COLUMNS:
        return f"{name} is the name of one of Sluice's own columns"
    if (length := len(name.encode())) > MAX_NAME_BYTES:
        return f"a key of {length} bytes cannot name a column: {MAX_NAME_BYTES} are the most"
    return None


class _Names:
    """Names that new columns may not have (see ``_dotted``), room left, and whether one is a time.

    What a struct would take, if it became a column, is laid over what is taken: nothing is copied.
    """

    def __init__(
        self, names: _Taken, max_columns: int, *, timestamps: bool, under: _Names | None = None
    ) -> None:
        self.timestamps = timestamps
        self._names: set[str] = set()
        self._columns = 0
        self._under = under
        self._max_columns = max_columns
        self.add(names)

    def __contains__(self, name: str) -> bool:
        return name in self._names or (self._under is not None and name in self._under)

    def __len__(self) -> int:
        return self._columns + (0 if self._under is None else len(self._under))

    @property
    def are_full(self) -> bool:
        return len(self) >= self._max_columns

    def over(self, *columns: str) -> _Names:
        named = ((column, True) for column in columns)
        return _Names(named, self._max_columns, timestamps=self.timestamps, under=self)

    def add(self, names: _Taken) -> None:
        for name, is_column in names:
            self._names.add(name)
            self._columns += is_column


def _additions(
    evidence: Mapping[str, FieldEvidence], columns: tuple[Field, ...], path: tuple[str, ...], taken: _Names
) -> Iterator[Addition]:
    for column in columns:
        if column.name in evidence:
            yield from _inside(evidence[column.name], column.type, (*path, column.name), taken)
    for new in _new_fields(evidence, columns, path, taken):
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
    evidence: Mapping[str, FieldEvidence], siblings: tuple[Field, ...], path: tuple[str, ...], taken: _Names
) -> tuple[Field, ...]:
    """Return the fields that get a column next to ``siblings``, in order of first appearance.

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
        kind = _type_of(unknown[name], (*path, name), taken.over(dotted))
        if kind is None:
            continue
        names = [*_dotted(path, (Field(name, kind),))]
        if not any(each in taken for each, _ in names):
            taken.add(names)
            added.append(Field(name, kind))
    return tuple(sorted(added, key=lambda new: (unknown[new.name].order, new.name)))


def _type_of(evidence: FieldEvidence, path: tuple[str, ...], taken: _Names) -> FieldType | None:
    """Return the type that fits most values, or None; ties are settled by the order here.

    Of long and double the one under which fewer values become dead letters, and of equals long, under which
    no fraction is rounded. Integers past 64 bits fit neither.
    """
    count, items = evidence.count, evidence.element
    text = Primitive.TIMESTAMPTZ if taken.timestamps and not count(Kind.STRING) else Primitive.STRING
    fields = _new_fields(evidence.fields, (), path, taken.over())
    element = None if items is None else _type_of(items, (*path, "element"), taken)
    candidates: list[tuple[int, FieldType | None]] = [
        (count(Kind.STRING, Kind.TIMESTAMP), text),
        (count(Kind.OBJECT), StructOf(fields) if fields else None),
        (count(Kind.ARRAY), None if element is None else ListOf(element)),
        (count(Kind.LONG, Kind.WIDE_LONG), Primitive.LONG),
        (count(Kind.LONG, Kind.DOUBLE), Primitive.DOUBLE),
        (count(Kind.BOOLEAN), Primitive.BOOLEAN),
    ]
    possible = [(votes, kind) for votes, kind in candidates if votes and kind is not None]
    return max(possible, key=lambda candidate: candidate[0])[1] if possible else None


def _dotted(
    path: tuple[str, ...], fields: Iterable[Field], brief: tuple[str, ...] | None = None
) -> Iterator[tuple[str, bool]]:
    """Yield dotted lower-case names of the fields and nested ones, and whether they are columns.

    No columns, and taken all the same: names in files, elements of lists, keys and values of maps, and the
    ``brief`` path, without the elements and values that are structs, by which PyIceberg knows fields too.
    """
    brief = path if brief is None else brief
    for each in fields:
        full, short, kind = (*path, each.name), (*brief, each.name), each.type
        taken = [short, (*path, _in_files(each.name))]
        yield ".".join(full).lower(), True
        while isinstance(kind, ListOf | MapOf):
            steps = ("element",) if isinstance(kind, ListOf) else ("key", "value")
            taken += [(*way, step) for way in (full, short) for step in steps]
            kind = kind.element if isinstance(kind, ListOf) else kind.value
            full = (*full, steps[-1])
            short = short if isinstance(kind, StructOf) else (*short, steps[-1])
        yield from ((".".join(way).lower(), False) for way in taken)
        if isinstance(kind, StructOf):
            yield from _dotted(full, kind.fields, short)
