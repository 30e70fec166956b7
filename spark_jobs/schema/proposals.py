"""Notes on inferred columns: types that few values decided, and proposed declarations. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce

from spark_jobs.config.columns import Growth
from spark_jobs.schema.evidence import Evidence, FieldEvidence, Kind, Sighting
from spark_jobs.schema.inference import (
    Addition,
    DeclaredType,
    Field,
    FieldType,
    ListOf,
    MapOf,
    Primitive,
    StructOf,
    choose_types,
)

_KAFKA_TIME = "_kafka_timestamp"
_LONGEST_DECIMAL = DeclaredType("decimal(38, 0)")
_INTEGERS = frozenset({Kind.LONG, Kind.WIDE_LONG, Kind.BIG_INTEGER})
_TOGETHER = ({Kind.STRING, Kind.TIMESTAMP}, {Kind.LONG, Kind.DOUBLE}, {Kind.LONG, Kind.WIDE_LONG})
_FEWEST_KEYS = 10
_FEWEST_IDS = 3
_RARE = 0.3  # of the objects, in which the average key is
_ID = re.compile(r"[+-]?\d[\d.,:_TZ+-]*|[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_MOST_MISSING = 0.1  # of the records, in which a time to partition by may be missing


def propose(columns: Sequence[Field], evidence: Evidence) -> tuple[tuple[Field, ...], str | None]:
    """Return proposed declarations for a new table's columns, and a time to partition by.

    An object whose keys are data (many, each of them rare, or all of them ids or times) becomes a map; a
    field of integers past 64 bits, which gets no column, a decimal of 38 digits. Rows are kept apart by the
    day of the first time that nearly every record has, else of Kafka's.
    """
    better = _better_fields(evidence.fields, columns)
    given = {each.name: each.type for each in columns}
    worth = tuple(each for each in better if given.get(each.name) != each.type)
    return worth, _time_of(columns, evidence) if evidence.records else None


def _better_fields(seen: Mapping[str, FieldEvidence], made: Sequence[Field]) -> tuple[Field, ...]:
    better = [Field(each.name, _better(each.type, seen.get(each.name))) for each in made]
    have = {each.name for each in made}
    better += (Field(name, _LONGEST_DECIMAL) for name in seen if name not in have and _is_big(seen[name]))
    return tuple(better)


def _better(kind: FieldType, seen: FieldEvidence | None) -> FieldType:
    if seen is None:
        return kind
    if isinstance(kind, StructOf):
        value = _map_value(seen)
        return StructOf(_better_fields(seen.fields, kind.fields)) if value is None else MapOf(value)
    if isinstance(kind, ListOf):
        return ListOf(_better(kind.element, seen.element))
    return _LONGEST_DECIMAL if kind is Primitive.LONG and _is_big(seen) else kind


def _map_value(seen: FieldEvidence) -> FieldType | None:
    """Return the common type of an object's values if its keys look like data, else None."""
    keys = len(seen.fields)
    present = sum(each.count(*Kind) for each in seen.fields.values())
    are_rare = keys >= _FEWEST_KEYS and present < _RARE * keys * seen.count(Kind.OBJECT)
    are_ids = keys >= _FEWEST_IDS and all(map(_ID.fullmatch, seen.fields))
    if not (are_rare or are_ids):
        return None
    value = reduce(FieldEvidence.merge, seen.fields.values())
    kinds = value.kinds.keys() - {Kind.NULL}
    if len(kinds) > 1 and not any(kinds <= together for together in _TOGETHER):
        return None
    fields = choose_types(Evidence(fields={"value": value}))
    return _better(fields[0].type, value) if fields else None


def _is_big(seen: FieldEvidence) -> bool:
    return Kind.BIG_INTEGER in seen.kinds and seen.kinds.keys() <= _INTEGERS | {Kind.NULL}


def _time_of(columns: Sequence[Field], evidence: Evidence) -> str:
    enough = (1 - _MOST_MISSING) * evidence.records
    times = (each.name for each in columns if each.type is Primitive.TIMESTAMPTZ)
    seen = ((name, evidence.fields.get(name)) for name in times if name.isidentifier())
    often = (name for name, each in seen if (each.count(Kind.TIMESTAMP) if each else 0) >= enough)
    return next(often, _KAFKA_TIME)


# In words: where few values decided the type of a new column, or lost to it.


_NOUNS: Mapping[Kind, str] = {
    Kind.BOOLEAN: "boolean",
    Kind.LONG: "integer",
    Kind.WIDE_LONG: "integer no double is equal to",
    Kind.BIG_INTEGER: "integer past 64 bits",
    Kind.DOUBLE: "number with a fraction or exponent",
    Kind.STRING: "string",
    Kind.TIMESTAMP: "string",
    Kind.OBJECT: "object",
    Kind.ARRAY: "array",
}
_FITTING: Mapping[Primitive, frozenset[Kind]] = {
    Primitive.STRING: frozenset({Kind.STRING, Kind.TIMESTAMP}),
    Primitive.TIMESTAMPTZ: frozenset({Kind.TIMESTAMP}),
    Primitive.LONG: frozenset({Kind.LONG, Kind.WIDE_LONG}),
    Primitive.DOUBLE: frozenset({Kind.LONG, Kind.DOUBLE}),
    Primitive.BOOLEAN: frozenset({Kind.BOOLEAN}),
}


def minorities(additions: Iterable[Addition], evidence: Evidence) -> Iterator[str]:
    """Return a sentence per new column: values that become dead letters, or few that decided its type."""
    top = FieldEvidence((0, 0, 0), fields=evidence.fields)
    for addition in additions:
        if (seen := _at(top, addition.path)) is not None:
            yield from _notes_on(".".join(addition.path), addition.type, seen)


def column_notes(
    columns: Sequence[Field], declared: Sequence[Field], evidence: Evidence, growth: Growth
) -> Iterator[str]:
    """Return the same for a new table, and for fields whose integers are too long for a column."""
    yield from minorities((Addition((each.name,), each.type) for each in columns[len(declared) :]), evidence)
    for path, big in _too_long((), evidence.fields, columns):
        fate = "left out" if growth.ignores else _fate(big.count)
        hint = f": {_declare_long(path[0])}" if len(path) == 1 else ""
        yield f"{'.'.join(path)}: no column; {_counted(Kind.BIG_INTEGER, big)}, {fate}{hint}"


def impossible(declared: Sequence[Field], evidence: Evidence, growth: Growth) -> Iterator[str]:
    """Return a sentence for each column whose value in every record cannot fit.

    Declared ones, and those for which integers past 64 bits are no evidence of a type.
    """
    for path, big in () if growth.ignores else _too_long((), evidence.fields, declared):
        if len(path) == 1 and big.count == evidence.records:
            counted = _counted(Kind.BIG_INTEGER, big)
            yield f"{path[0]} has no type for {counted}: {_declare_long(path[0])}"
    for column in declared:
        seen = evidence.fields.get(column.name)
        if seen is None or not evidence.records or seen.count(*_could_fit(column.type), Kind.NULL):
            continue
        if seen.count(*Kind) == evidence.records:
            kinds = ", ".join(_counted(each, sighting) for each, sighting in seen.kinds.items())
            column_type = f"{column.name} is declared {_name(column.type)}"
            yield f"{column_type}, and of {evidence.records:,} values {kinds}"


def _declare_long(name: str) -> str:
    return f'for up to 38 digits, declare columns: {{{name}: "decimal(38,0)"}}'


def _could_fit(kind: FieldType) -> frozenset[Kind]:
    """Return the kinds with values that may fit, depending on text or size.

    Of a field's strings none is looked at as a time behind the first that is none.
    """
    if isinstance(kind, StructOf | MapOf):
        return frozenset({Kind.OBJECT})
    if isinstance(kind, ListOf):
        return frozenset({Kind.ARRAY})
    if isinstance(kind, Primitive) and kind not in {Primitive.DOUBLE, Primitive.TIMESTAMPTZ}:
        return _FITTING[kind]
    numbers = frozenset({Kind.LONG, Kind.WIDE_LONG, Kind.BIG_INTEGER, Kind.DOUBLE})
    name = _name(kind)
    if name.startswith("decimal"):
        return numbers | _FITTING[Primitive.STRING]
    return numbers if name in {"int", "float", "double"} else _FITTING[Primitive.STRING]


def _too_long(
    path: tuple[str, ...], fields: Mapping[str, FieldEvidence], made: Iterable[Field]
) -> Iterator[tuple[tuple[str, ...], Sighting]]:
    """Return fields without a column, at any depth, with only integers above 64 bits."""
    types = {each.name: each.type for each in made}
    for name, seen in fields.items():
        here, kind = (*path, name), types.get(name)
        if kind is None and seen.kinds.keys() - {Kind.NULL} == {Kind.BIG_INTEGER}:
            yield here, seen.kinds[Kind.BIG_INTEGER]
        if kind is None or isinstance(kind, StructOf):
            yield from _too_long(here, seen.fields, kind.fields if kind else ())
        if seen.element is not None and (kind is None or isinstance(kind, ListOf)):
            element = (Field("element", kind.element),) if kind else ()
            yield from _too_long(here, {"element": seen.element}, element)


def _at(top: FieldEvidence, path: tuple[str, ...]) -> FieldEvidence | None:
    """Return the evidence at a path; None below a map, whose values have many names."""
    here: FieldEvidence | None = top
    for name in path:
        if here is None:
            return None
        here = here.element if here.element is not None and name == "element" else here.fields.get(name)
    return here


def _notes_on(column: str, kind: FieldType, seen: FieldEvidence) -> Iterator[str]:
    if isinstance(kind, MapOf | DeclaredType):
        return
    if isinstance(kind, Primitive):
        yield from _deciders(column, kind, seen)
    fitting = _FITTING[kind] if isinstance(kind, Primitive) else _could_fit(kind)
    lost = {each: sighting for each, sighting in seen.kinds.items() if each not in fitting | {Kind.NULL}}
    if lost:
        values = seen.count(*Kind) - seen.count(Kind.NULL)
        kinds = ", ".join(_counted(each, sighting) for each, sighting in lost.items())
        fate = _fate(sum(sighting.count for sighting in lost.values()))
        yield f"{column}: {_name(kind)}; of {values:,} values {kinds}, {fate}"
    if isinstance(kind, StructOf):
        for field in kind.fields:
            yield from _notes_on(f"{column}.{field.name}", field.type, seen.fields[field.name])
    if isinstance(kind, ListOf) and seen.element is not None:
        yield from _notes_on(f"{column}.element", kind.element, seen.element)


def _deciders(column: str, kind: Primitive, seen: FieldEvidence) -> Iterator[str]:
    """Return why a column is double or string although most values fit a narrower type."""
    fraction, no_time = seen.kinds.get(Kind.DOUBLE), seen.kinds.get(Kind.STRING)
    if kind is Primitive.DOUBLE and fraction and fraction.count < seen.count(Kind.LONG):
        yield f"{column}: double because of {_counted(Kind.DOUBLE, fraction)}; other values are integers"
    if kind is Primitive.STRING and no_time and Kind.TIMESTAMP in seen.kinds:
        yield f"{column}: string because of {_first(no_time)}; values before it are times with a zone"


def _counted(kind: Kind, sighting: Sighting) -> str:
    noun, space, rest = _NOUNS[kind].partition(" ")
    return f"{sighting.count:,} {noun}{'s' * (sighting.count > 1)}{space}{rest} ({_first(sighting)})"


def _first(sighting: Sighting) -> str:
    return f"{sighting.example} at {sighting.partition}:{sighting.offset}"


def _fate(count: int) -> str:
    return "dead letters" if count > 1 else "a dead letter"


def _name(kind: FieldType) -> str:
    if isinstance(kind, Primitive | DeclaredType):
        return kind.value if isinstance(kind, Primitive) else kind.name
    return {StructOf: "struct", ListOf: "list", MapOf: "map"}[type(kind)]
