"""Fields of a sequence of JSON values, and the kinds of their values."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import orjson

from spark_jobs.formats.json.nesting import is_too_deep
from spark_jobs.schema.evidence import Evidence, FieldEvidence, Kind, Sighting
from spark_jobs.values.literals import parse_zoned, shortened

_MAX_LONG = 2**63 - 1
_MAX_EXACT = 2**53  # up to here every integer is a double
# Plain strings: the hash of an enum's member is a call into Python.
_LONG, _DOUBLE, _STRING, _TIMESTAMP = (
    kind.value for kind in (Kind.LONG, Kind.DOUBLE, Kind.STRING, Kind.TIMESTAMP)
)
_KINDS = {type(None): Kind.NULL.value, bool: Kind.BOOLEAN.value, int: _LONG, float: _DOUBLE, str: _STRING}


def observe(
    values: Sequence[bytes],
    *,
    partition: int = -1,
    offsets: Sequence[int] | None = None,
    max_fields: int = sys.maxsize,
) -> Evidence:
    """Gather evidence from values; values that are not JSON objects are counted.

    Coordinates are for people, to find an example: without ``offsets`` the positions in ``values``. Strings
    of a field are looked at as times until the first that is none. Of more than ``max_fields`` fields, at any
    depth, those of short values and the first are kept: a record with thousands hides no other's.
    """
    every = range(len(values))
    walker = _Walker(partition, max_fields).over(values, every, offsets or every)
    if walker.is_full:
        by_size = sorted(every, key=lambda index: len(values[index]))
        walker = _Walker(partition, max_fields).over(values, by_size, offsets or every)
    return Evidence(len(values) - walker.undecodable, walker.undecodable, walker.evidence())


@dataclass(slots=True)
class _Seen:
    """A ``FieldEvidence`` under construction."""

    order: tuple[int, int, int]
    kinds: dict[str, list[Any]] = field(default_factory=dict)
    fields: dict[str, _Seen] = field(default_factory=dict)
    element: _Seen | None = None

    def evidence(self) -> FieldEvidence:
        return FieldEvidence(
            self.order,
            {Kind(kind): Sighting(*sighting) for kind, sighting in self.kinds.items()},
            {name: seen.evidence() for name, seen in self.fields.items()},
            None if self.element is None else self.element.evidence(),
        )


class _Walker:
    """Walks parsed records; the hottest loop of a first batch, hence plain dicts and lists."""

    def __init__(self, partition: int, max_fields: int) -> None:
        self.fields: dict[str, _Seen] = {}
        self.offset = 0
        self.undecodable = 0
        self.huge: list[tuple[_Seen, float]] = []
        self._partition = partition
        self._room = max_fields

    @property
    def is_full(self) -> bool:
        """True if no more fields fit."""
        return not self._room

    def evidence(self) -> dict[str, FieldEvidence]:
        return {name: seen.evidence() for name, seen in self.fields.items()}

    def over(self, values: Sequence[bytes], indices: Sequence[int], offsets: Sequence[int]) -> Self:
        """Count the fields of all values, in the order of these indices."""
        for index in indices:
            value, self.offset = values[index], offsets[index]
            try:
                record = orjson.loads(value)
            except orjson.JSONDecodeError:
                record = None
            if type(record) is not dict or is_too_deep(value):
                self.undecodable += 1
                continue
            self.walk(record, self.fields)
            if self.huge:
                self.settle_huge(value)
        return self

    def walk(self, record: dict[str, Any], fields: dict[str, _Seen]) -> None:
        """Count the fields of an object."""
        for name, value in record.items():
            seen = fields.get(name)
            if seen is None:
                if not self._room:
                    continue
                seen = fields[name] = self._new(len(fields))
            self._count(seen, value)

    def settle_huge(self, value: bytes) -> None:
        """Count numbers that orjson returns as doubles but that may have been written as integers."""
        integers: set[float] = set()

        def note(text: str) -> None:
            integers.add(float(text))

        json.loads(value, parse_int=note)
        for seen, number in self.huge:
            self._add(seen, Kind.BIG_INTEGER.value if number in integers else _DOUBLE, number)
        self.huge.clear()

    def _new(self, position: int) -> _Seen:
        self._room -= 1
        return _Seen((self._partition, self.offset, position))

    def _count(self, seen: _Seen, value: Any) -> None:
        kind = _KINDS.get(type(value))
        if kind is None:
            self._count_nested(seen, value)
            return
        if kind is _STRING:
            if _STRING not in seen.kinds and parse_zoned(value):
                kind = _TIMESTAMP
        elif kind is _LONG:
            if not -_MAX_EXACT <= value <= _MAX_EXACT:
                kind = _kind_of_large(value)
        elif kind is _DOUBLE and not -_MAX_LONG <= value <= _MAX_LONG:
            self.huge.append((seen, value))
            return
        sighting = seen.kinds.get(kind)
        if sighting is None:
            self._add(seen, kind, value)
        else:
            sighting[0] += 1

    def _count_nested(self, seen: _Seen, value: Any) -> None:
        if type(value) is dict:
            self._add(seen, Kind.OBJECT.value, value)
            self.walk(value, seen.fields)
            return
        self._add(seen, Kind.ARRAY.value, value)
        if not value:
            return
        element = seen.element
        if element is None:
            if not self._room:
                return
            element = seen.element = self._new(0)
        for item in value:
            self._count(element, item)

    def _add(self, seen: _Seen, kind: str, value: Any) -> None:
        sighting = seen.kinds.get(kind)
        if sighting is None:
            seen.kinds[kind] = [1, self._partition, self.offset, shortened(orjson.dumps(value).decode())]
        else:
            sighting[0] += 1


def _kind_of_large(value: int) -> str:
    if value > _MAX_LONG:
        return Kind.BIG_INTEGER.value
    return _LONG if int(float(value)) == value else Kind.WIDE_LONG.value
