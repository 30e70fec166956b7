"""A point in a table's history: a snapshot id, or a time. Pure."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from spark_jobs.protocol.errors import fault

_MILLISECOND = dt.timedelta(milliseconds=1)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment; exactly one is set: a snapshot id, or milliseconds since the epoch (UTC, inclusive)."""

    snapshot_id: int | None = None
    at_ms: int | None = None


def parse_moment(text: str) -> Moment:
    """Parse digits as a snapshot id, anything else as ISO 8601; UTC without a zone.

    Raises ``ConfigError`` (``unknown-moment``).
    """
    if text.isascii() and text.isdigit():
        return Moment(snapshot_id=int(text))
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise fault("unknown-moment", text=text) from error
    zoned = time if time.tzinfo is not None else time.replace(tzinfo=dt.UTC)
    return Moment(at_ms=(zoned - _EPOCH) // _MILLISECOND)


def iso_of_ms(at_ms: int) -> str:
    """Return milliseconds since the epoch in ISO 8601, in UTC."""
    return (_EPOCH + at_ms * _MILLISECOND).isoformat(timespec="milliseconds").replace("+00:00", "Z")
