"""A record that alone brings so many new fields that they are no columns: keys that are data. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from spark_jobs.schema.evidence import Evidence, FieldEvidence, Kind, brought_too_many
from spark_jobs.schema.inference import UNBOUNDED, Field, FieldType, ListOf, StructOf, count_columns
from spark_jobs.schema.unknown_fields import says_something

# New fields that one record may bring which no other of its batch has.
MOST_ALONE = 100

_Record: TypeAlias = tuple[int, int]


def without_bursts(
    evidence: Evidence, columns: tuple[Field, ...], max_columns: int, *, most_alone: int = MOST_ALONE
) -> Evidence:
    """Return the evidence without the new fields that one record brings too many of.

    Those are more than ``most_alone`` that it alone has; or more than there is room for, at any depth, so
    that it cannot be a row itself. What more records have stays.
    """
    room = max_columns - count_columns(columns)
    limits = brought_too_many(_new(evidence.fields, columns), room, most_alone)
    return replace(evidence, fields=_kept(evidence.fields, columns, limits)) if limits else evidence


def most_alone_at_first(evidence: Evidence) -> int:
    """Return the limit of a table that is about to be made: its only record is no exception from others."""
    return MOST_ALONE if evidence.records > 1 else UNBOUNDED


def _new(fields: Mapping[str, FieldEvidence], columns: Iterable[Field]) -> Iterator[FieldEvidence]:
    known = {column.name: column.type for column in columns}
    for name, seen in fields.items():
        yield from _new_in(seen, known.get(name))


def _new_in(seen: FieldEvidence, kind: FieldType | None) -> Iterator[FieldEvidence]:
    if kind is None and says_something(seen):
        yield seen
    if (inside := _inside(seen, kind)) is not None:
        yield from _new(inside[0].fields, inside[1])


def _inside(seen: FieldEvidence, kind: FieldType | None) -> tuple[FieldEvidence, tuple[Field, ...]] | None:
    """Return what lists hold in the end, and its columns; None without fields, or where keys are data."""
    while seen.element is not None and (kind is None or isinstance(kind, ListOf)):
        seen, kind = seen.element, None if kind is None else kind.element
    if kind is None:
        return seen, ()
    return (seen, kind.fields) if isinstance(kind, StructOf) else None


def _kept(
    fields: Mapping[str, FieldEvidence], columns: Iterable[Field], limits: Mapping[_Record, int]
) -> dict[str, FieldEvidence]:
    known = {column.name: column.type for column in columns}
    return {
        name: _kept_in(seen, known.get(name), limits)
        for name, seen in fields.items()
        if name in known or seen.count(*Kind) > limits.get(seen.order[:2], 0)
    }


def _kept_in(seen: FieldEvidence, kind: FieldType | None, limits: Mapping[_Record, int]) -> FieldEvidence:
    if seen.element is not None and (kind is None or isinstance(kind, ListOf)):
        inner = None if kind is None else kind.element
        return replace(seen, element=_kept_in(seen.element, inner, limits))
    if kind is not None and not isinstance(kind, StructOf):
        return seen
    return replace(seen, fields=_kept(seen.fields, () if kind is None else kind.fields, limits))
