"""Lossless parsed JSON, shortened values for messages, and numbers and times as text."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import TypeVar

import orjson
import pyarrow as pa

_EXAMPLE_CHARACTERS = 60
_Read = TypeVar("_Read")


class FractionLiteral(str):
    """A number written with a fraction or an exponent, in its original text."""

    __slots__ = ()


class NearestLiteral(FractionLiteral):
    """A floating-point column's value for a number that it may have rounded."""

    __slots__ = ()


class HugeIntegerLiteral(str):
    """An integer with more digits than any column holds, in its original text."""

    __slots__ = ()


def json_text(value: object) -> str:
    """Return a parsed value as JSON: no blanks, original field order, original numbers."""
    if isinstance(value, dict):
        return f"{{{','.join(f'{json_text(name)}:{json_text(each)}' for name, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(json_text, value))}]"
    if isinstance(value, FractionLiteral | HugeIntegerLiteral):
        return str(value)
    return str(value) if type(value) is int else orjson.dumps(value).decode()


def json_kind(value: object) -> str:
    """Return the JSON kind of a parsed value, for messages."""
    if value is None:
        return "null"
    for kind, name in _KIND_NAMES:
        if isinstance(value, kind):
            return name
    raise TypeError(type(value).__name__)


_KIND_NAMES = (
    (bool, "a boolean"), (int, "an integer"), (HugeIntegerLiteral, "an integer past 64 bits"),
    (FractionLiteral, "a number with a fraction or exponent"), (str, "a string"), (dict, "an object"),
    (list, "an array"),
)  # fmt: skip


def shortened(text: str, characters: int = _EXAMPLE_CHARACTERS) -> str:
    """Return a record's text, shortened for people."""
    return text if len(text) <= characters else text[: characters - 1] + "…"


def says_something(value: object) -> bool:
    """True if the value contains anything but null, empty lists and empty objects."""
    if isinstance(value, dict):
        return any(map(says_something, value.values()))
    if isinstance(value, list):
        return any(map(says_something, value))
    return value is not None


# Numbers, times and dates as text, read exactly or not at all.
#
# The grammar of times is Arrow's cast from string, but that zeros behind the sixth digit are no digits.


_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,39})(\.\d{1,40})?([eE][+-]?\d{1,3})?", re.ASCII)
# What a decimal column takes: a sign, and no digit before or behind the point, too.
is_decimal = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII).fullmatch
# An integer that fits a long whatever it is, for Arrow.
SHORT_INTEGER = r"^-?(0|[1-9][0-9]{0,17})$"


def number_of(text: str) -> int | FractionLiteral | None:
    """Return the number of a JSON literal of up to 40 digits; None for other text."""
    match = _NUMBER.fullmatch(text)
    return None if match is None else FractionLiteral(text) if any(match.groups()) else int(text)


def nearest_single(text: str) -> float:
    """Return the nearest 32-bit number."""
    return float(pa.scalar(text).cast(pa.float32()).as_py())  # by way of a double it would be rounded twice


_DATE = r"\d{4}-\d\d-\d\d"
_SECONDS = r"\d\d(?:\.\d{1,6}0*)?"
_TIME = rf"\d\d(?::\d\d(?::{_SECONDS})?)?"
_DAYS_OF_400_YEARS = timedelta(146_097)


def _reader(pattern: str, read: Callable[[str], _Read]) -> Callable[[str], _Read | None]:
    matches = re.compile(pattern, re.ASCII).fullmatch

    def parse(text: str) -> _Read | None:
        if not matches(text):
            return None
        try:
            return read(text)
        except (ValueError, OverflowError):
            return None

    return parse


def _zoned(text: str) -> datetime:
    if text.startswith("0000"):  # its zone may make a time of the year 1 of it, and its days are those of 400
        return datetime.fromisoformat(f"04{text[2:]}").astimezone(UTC) - _DAYS_OF_400_YEARS
    return datetime.fromisoformat(text).astimezone(UTC)


# Each returns None for what is no such text, and a time with a zone also for one outside the years 1 to 9999.
parse_zoned = _reader(rf"{_DATE}[T ]{_TIME}(?:Z|[+-]\d\d(?::?[0-5]\d)?)", _zoned)
parse_local = _reader(rf"{_DATE}(?:[T ]{_TIME})?", datetime.fromisoformat)  # a date is its midnight
parse_date = _reader(_DATE, date.fromisoformat)
parse_time = _reader(rf"\d\d:\d\d(?::{_SECONDS})?", time.fromisoformat)
# A text's digits that are finer than a microsecond; to cut them off is to round down, before 1970 too.
FINER, WITHOUT_FINER = r"(\.[0-9]{6})[0-9]+", r"\1"
