"""How times are told in columns that a person declared text or numbers, with all of their digits."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from spark_jobs.schema.writer_schema import UnreadableValueError

_NANOS = 1_000_000_000
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  (local, or by the zone behind it)
_Schema = TypeVar("_Schema")


class Form(StrEnum):
    """What a time is told as, instead of as a time."""

    TEXT = "text"
    NUMBER = "number"


# By field, of those that are a value's own.
Forms: TypeAlias = tuple[tuple[str, Form], ...]


def under(schema: _Schema, forms: Forms) -> _Schema:
    """Return the schema with the times of these fields told so; one that is no record has no fields."""
    of_it: Any = schema
    return replace(of_it, told=forms) if hasattr(schema, "told") else schema


def instant_text(nanos: int, zone: str = "Z") -> str:
    """Return a time since 1970 as ISO 8601 has it. Raises ``UnreadableValueError``."""
    seconds, rest = divmod(nanos, _NANOS)
    try:
        whole = _EPOCH + timedelta(seconds=seconds)
    except OverflowError as error:
        raise UnreadableValueError("a time outside the years 1 to 9999") from error
    return f"{whole.isoformat()}{_fraction(rest)}{zone}"


def clock_text(nanos: int) -> str:
    """Return a time of day, or of more or less than one."""
    seconds, rest = divmod(abs(nanos), _NANOS)
    sign = "-" if nanos < 0 else ""
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{_fraction(rest)}"


def seconds_text(nanos: int) -> str:
    """Return how long something took."""
    seconds, rest = divmod(abs(nanos), _NANOS)
    return f"{'-' if nanos < 0 else ''}{seconds}{_fraction(rest)}s"


def _fraction(nanos: int) -> str:
    """Return three, six or nine digits behind a point, as most write them; none of none."""
    digits = f"{nanos:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}" if digits else ""
