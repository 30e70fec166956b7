"""Times and dates as text, read exactly or not at all.

The grammar is Arrow's cast from string: what this refuses the cast refuses too, and the other way round.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time

_DATE = r"\d{4}-\d\d-\d\d"
_TIME = r"\d\d(?::\d\d(?::\d\d(?:\.\d{1,6})?)?)?"
_ZONED = re.compile(rf"{_DATE}[T ]{_TIME}(?:Z|[+-]\d\d(?::?[0-5]\d)?)", re.ASCII)
_LOCAL = re.compile(rf"{_DATE}(?:[T ]{_TIME})?", re.ASCII)
_ONLY_DATE = re.compile(_DATE, re.ASCII)
_ONLY_TIME = re.compile(r"\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?", re.ASCII)


def parse_zoned(text: str) -> datetime | None:
    """Return a time with zone designator, as UTC; None when it is none, or outside the years 1 to 9999."""
    if not _ZONED.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def parse_local(text: str) -> datetime | None:
    """Return a time without zone (a date is its midnight), or None."""
    if not _LOCAL.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def parse_date(text: str) -> date | None:
    """Return a calendar date, or None."""
    if not _ONLY_DATE.fullmatch(text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def parse_time(text: str) -> time | None:
    """Return a time of day, or None."""
    if not _ONLY_TIME.fullmatch(text):
        return None
    try:
        return time.fromisoformat(text)
    except ValueError:
        return None
