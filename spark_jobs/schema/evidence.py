"""Evidence on JSON fields, and the schemas that values name. Pure.

Evidence merges in any order and grouping to the same result, so it can be gathered by many tasks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from spark_jobs.protocol.offsets import SchemaKey
from spark_jobs.protocol.texts import JsonCodec

# Of values, and of keys. Who sends bytes that look like ids must not have a registry asked for all of them.
MOST_SCHEMAS = 200


class Kind(StrEnum):
    """Kind of a JSON value."""

    NULL = "null"
    BOOLEAN = "boolean"
    LONG = "long"
    WIDE_LONG = "long that no double is equal to"
    BIG_INTEGER = "integer past 64 bits"
    DOUBLE = "double"
    STRING = "string"
    TIMESTAMP = "timestamp-like string"
    OBJECT = "object"
    ARRAY = "array"


@dataclass(frozen=True, slots=True)
class Sighting:
    """Count of a kind, and its first value as shortened JSON text with its coordinates."""

    count: int
    partition: int
    offset: int
    example: str

    def merge(self, other: Sighting) -> Sighting:
        """Return both counts, and the earlier example."""
        first = min(self, other, key=lambda s: (s.partition, s.offset, s.example))
        return Sighting(self.count + other.count, first.partition, first.offset, first.example)


@dataclass(frozen=True, slots=True)
class FieldEvidence:
    """Evidence on one field; ``order`` is (partition, offset, position) of its first appearance."""

    order: tuple[int, int, int]
    kinds: Mapping[Kind, Sighting] = field(default_factory=dict)
    fields: Mapping[str, FieldEvidence] = field(default_factory=dict)
    element: FieldEvidence | None = None

    def count(self, *kinds: Kind) -> int:
        """Return the number of values of one of these kinds."""
        return sum(self.kinds[kind].count for kind in kinds if kind in self.kinds)

    def merge(self, other: FieldEvidence) -> FieldEvidence:
        """Return the combined evidence."""
        return FieldEvidence(
            min(self.order, other.order),
            _merge(self.kinds, other.kinds),
            _merge(self.fields, other.fields),
            self.element.merge(other.element)
            if self.element and other.element
            else self.element or other.element,
        )


@dataclass(frozen=True, slots=True)
class FirstAndLast:
    """Partition and offset of the first appearance; time, partition and offset of the last.

    The time is Kafka's, in milliseconds since the epoch: offsets of two partitions are in no order.
    """

    order: tuple[int, int]
    last: tuple[int, int, int] = (-1, -1, -1)

    def merge(self, other: FirstAndLast) -> FirstAndLast:
        """Return the earliest first and the latest last appearance."""
        return FirstAndLast(min(self.order, other.order), max(self.last, other.last))


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence on all fields of ``records`` values; ``undecodable`` counts the unreadable ones.

    ``schemas`` are those that values and keys name and that are not known, in order. ``texts`` are schemas
    that values bring with them.
    """

    records: int = 0
    undecodable: int = 0
    fields: Mapping[str, FieldEvidence] = field(default_factory=dict)
    schemas: tuple[SchemaKey, ...] = ()
    texts: Mapping[str, FirstAndLast] = field(default_factory=dict)

    def merge(self, other: Evidence) -> Evidence:
        """Return the combined evidence."""
        return Evidence(
            self.records + other.records,
            self.undecodable + other.undecodable,
            _merge(self.fields, other.fields),
            tuple(sorted({*self.schemas, *other.schemas})),
            _merge(self.texts, other.texts),
        )

    def within(self, max_fields: int) -> Evidence:
        """Return evidence on at most this many fields at any depth, in order of first appearance.

        A quarter may be columns: what records brought that have more than these, and are none, goes first.
        Of schemas there are at most ``MOST_SCHEMAS`` of values, and of keys.
        """
        most = max(len(self.schemas), len(self.texts))
        if _count(self.fields) <= max_fields and most <= MOST_SCHEMAS:
            return self
        values, keys = ([key for key in self.schemas if key.of_key is each] for each in (False, True))
        schemas = (*values[:MOST_SCHEMAS], *keys[:MOST_SCHEMAS])
        texts = {text: self.texts[text] for text in self.texts_in_order[:MOST_SCHEMAS]}
        kept = self.without_bursts(every_field(self.fields), max_fields // 4, max_fields // 4)
        fields = _first(kept.fields, iter(range(max_fields)))
        return replace(self, fields=fields, schemas=schemas, texts=texts)

    def without_bursts(self, new: Iterable[FieldEvidence], most: int, most_alone: int) -> Evidence:
        """Return the evidence without ``new`` fields of records that bring too many of them.

        Those are more than ``most`` that were seen first in it and in as few values as most of them; where
        that is one value ``most_alone`` counts, too.
        """
        brought: dict[tuple[int, int], list[FieldEvidence]] = defaultdict(list)
        for seen in new:
            brought[seen.order[:2]].append(seen)
        dropped: set[int] = set()
        for fields in brought.values():
            usual, _ = Counter(seen.count(*Kind) for seen in fields).most_common(1)[0]
            rare = [id(seen) for seen in fields if seen.count(*Kind) <= usual]
            dropped.update(rare if len(rare) > (min(most, most_alone) if usual == 1 else most) else ())
        return replace(self, fields=_without(self.fields, dropped)) if dropped else self

    @property
    def texts_in_order(self) -> list[str]:
        """Schemas contained in values, in order of first appearance."""
        return sorted(self.texts, key=lambda text: (self.texts[text].order, text))

    @property
    def texts_newest_first(self) -> list[str]:
        """Schemas contained in values, by their last appearance, newest first."""
        return sorted(self.texts, key=lambda text: (self.texts[text].last, text), reverse=True)

    def without(self, names: Collection[str]) -> Evidence:
        """Return the evidence without these fields."""
        kept = {name: seen for name, seen in self.fields.items() if name not in names}
        return self if len(kept) == len(self.fields) else replace(self, fields=kept)

    def to_json(self) -> str:
        """Return one JSON object."""
        return _CODEC.to_json(self)

    @staticmethod
    def from_json(text: str) -> Evidence:
        """Read ``to_json`` back; raises ``ValueError``."""
        return _CODEC.from_json(text)


_CODEC = JsonCodec(Evidence)


def every_field(fields: Mapping[Any, FieldEvidence]) -> Iterator[FieldEvidence]:
    """Yield the fields and all nested ones, through lists."""
    for seen in fields.values():
        yield seen
        inside: FieldEvidence | None = seen
        while inside is not None:
            yield from every_field(inside.fields)
            inside = inside.element


def _without(fields: Mapping[str, FieldEvidence], dropped: Collection[int]) -> dict[str, FieldEvidence]:
    return {
        name: replace(
            seen,
            fields=_without(seen.fields, dropped),
            element=None if seen.element is None else _without({"": seen.element}, dropped)[""],
        )
        for name, seen in fields.items()
        if id(seen) not in dropped
    }


def _count(fields: Mapping[str, FieldEvidence]) -> int:
    inside = (
        each.fields if each.element is None else {**each.fields, "": each.element} for each in fields.values()
    )
    return len(fields) + sum(map(_count, inside))


def _first(fields: Mapping[str, FieldEvidence], room: Iterator[int]) -> dict[str, FieldEvidence]:
    kept = {}
    for name in sorted(fields, key=lambda each: (fields[each].order, each)):
        if next(room, None) is None:
            break
        seen = fields[name]
        element = None if seen.element is None else _first({"": seen.element}, room).get("")
        kept[name] = FieldEvidence(seen.order, seen.kinds, _first(seen.fields, room), element)
    return kept


def _merge(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> dict[Any, Any]:
    merged = dict(one)
    for key, item in other.items():
        merged[key] = merged[key].merge(item) if key in merged else item
    return merged
