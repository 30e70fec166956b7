"""What a person might declare before the first batch decides: maps, decimals, a partitioning. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import reduce

from spark_jobs.schema.evidence import Evidence, FieldEvidence, Kind
from spark_jobs.schema.inference import (
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
    """Return which columns of a table made with these are worth declaring, and the time to partition it by.

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
    """Return the one type that all values of an object have whose keys are data; None of any other."""
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
    return next(
        (name for name in times if _seen(evidence, name) >= enough and name.isidentifier()), _KAFKA_TIME
    )


def _seen(evidence: Evidence, name: str) -> int:
    seen = evidence.fields.get(name)
    return 0 if seen is None else seen.count(Kind.TIMESTAMP)
