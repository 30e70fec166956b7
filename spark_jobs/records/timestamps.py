"""Times and dates as text, read exactly or not at all.

The grammar is Arrow's cast from string, but that zeros behind the sixth digit are no digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from typing import TypeVar

_Read = TypeVar("_Read")

_DATE = r"\d{4}-\d\d-\d\d"
_SECONDS = r"\d\d(?:\.\d{1,6}0*)?"
_TIME = rf"\d\d(?::\d\d(?::{_SECONDS})?)?"


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


# Each returns None for what is no such text, and a time with a zone also for one outside the years 1 to 9999.
parse_zoned = _reader(
    rf"{_DATE}[T ]{_TIME}(?:Z|[+-]\d\d(?::?[0-5]\d)?)",
    lambda text: datetime.fromisoformat(text).astimezone(UTC),
)
parse_local = _reader(rf"{_DATE}(?:[T ]{_TIME})?", datetime.fromisoformat)  # a date is its midnight
parse_date = _reader(_DATE, date.fromisoformat)
parse_time = _reader(rf"\d\d:\d\d(?::{_SECONDS})?", time.fromisoformat)
# A text's digits that are finer than a microsecond; to cut them off is to round down, before 1970 too.
FINER, WITHOUT_FINER = r"(\.[0-9]{6})[0-9]+", r"\1"
