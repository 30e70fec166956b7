"""Iceberg partition transforms as written: ``day(time_hour)``, ``bucket(16, id)``, ``origin``. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spark_jobs.config.problems import Finding, UnreadableValueError, closest, did_you_mean

_TIME = ("year", "month", "day", "hour")
_WITH_WIDTH = ("bucket", "truncate")
TRANSFORMS = ("identity", *_TIME, *_WITH_WIDTH)
_CALL = re.compile(r"(\w+)\s*\(([^()]*)\)")
_COLUMN = re.compile(r"[^\s(),\[\]{}'\"`;]+")
_DAYS = ("date", "timestamp", "timestamptz")
_TRUNCATED = ("int", "long", "decimal", "string", "binary")
_VALUES = (*_TRUNCATED, *_DAYS, "time", "uuid")
# What writers can do: PyIceberg's manifests with a fixed value are none for Java, and of float and double
# engines disagree on which numbers are equal.
_TAKES = {
    "identity": (*_VALUES, "boolean"),
    "bucket": (*_VALUES, "fixed"),
    "truncate": _TRUNCATED,
    **dict.fromkeys(("year", "month", "day"), _DAYS),
    "hour": ("timestamp", "timestamptz"),
}
_HINT = "Write a column, year|month|day|hour(column), bucket(16, column) or truncate(8, column)."


@dataclass(frozen=True, slots=True)
class PartitionTerm:
    """One partition field; ``width`` is the number of buckets or the truncation width, None for the others.

    ``column`` names a top-level column, or a field inside structs with dots.
    """

    transform: str
    column: str
    width: int | None = None

    def __str__(self) -> str:
        if self.transform == "identity":
            return self.column
        width = "" if self.width is None else f"{self.width}, "
        return f"{self.transform}({width}{self.column})"


def parse_partition_term(text: str) -> PartitionTerm:
    """Read one term; a bare column is its identity. Raises ``UnreadableValueError``."""
    term = text.strip()
    if _COLUMN.fullmatch(term):
        return PartitionTerm("identity", term)
    call = _CALL.fullmatch(term)
    if call is None:
        raise UnreadableValueError(f"{text!r} is not a partition transform", _HINT)
    transform = call[1].lower()
    if transform not in TRANSFORMS:
        hint = did_you_mean(closest(transform, TRANSFORMS), _HINT)
        raise UnreadableValueError(f"{call[1]!r} is not an Iceberg partition transform", hint)
    *width, column = (argument.strip() for argument in call[2].split(","))
    is_column = _COLUMN.fullmatch(column) is not None
    if transform in _WITH_WIDTH:
        is_width = len(width) == 1 and width[0].isdecimal() and int(width[0]) > 0
        if not (is_width and is_column):
            raise UnreadableValueError(
                f"{text!r}: {transform} takes a width and a column", f"Write {transform}(16, column)."
            )
        return PartitionTerm(transform, column, int(width[0]))
    if width or not is_column:
        raise UnreadableValueError(f"{text!r}: {transform} takes one column", f"Write {transform}(column).")
    return PartitionTerm(transform, column)


def misfit(term: PartitionTerm, type_name: str) -> tuple[str, str] | None:
    """Return why a column of this type cannot be partitioned so, and what to do; None where it can."""
    if type_name.partition("(")[0].partition("[")[0].strip() in _TAKES[term.transform]:
        return None
    told = f"{term.transform} does not take the type of {term.column}, {type_name}"
    if term.transform == "identity" and type_name in {"float", "double"}:
        return told, (
            "Leave it out, or declare a decimal: engines do not agree on -0.0 and NaN. A table that was"
            " partitioned so stays as it is until `repartition`."
        )
    return told, "Use another transform, or declare the column's type under `columns:`."


def check_partition_by(terms: Iterable[str], types: Mapping[str, str]) -> Finding | None:
    """Return what cannot be of the columns whose types are declared."""
    for term in map(parse_partition_term, terms):
        if term.column in types and (wrong := misfit(term, types[term.column])) is not None:
            return Finding(("partition_by",), *wrong)
    return None
