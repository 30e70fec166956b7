"""Cron expressions and time zones: which there are, and the next tick, as Dagster has it. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from spark_jobs.config.problems import UnreadableValueError

OFF = "off"
_FIELDS = 5
_FOLD = timedelta(hours=2)  # longer than any hour that comes twice
_HINT = "Write minute, hour, day, month, weekday: '0 2 * * *' is each night at two."


def parse_cron(text: str) -> str | None:
    """Return the expression, None for ``off``; raises ``UnreadableValueError`` for one that never ticks."""
    from croniter import croniter  # noqa: PLC0415  (Spark workers read settings and have no use for it)

    cron = " ".join(text.split())
    if cron == OFF:
        return None
    if not (cron.count(" ") == _FIELDS - 1 and croniter.is_valid(cron)):
        raise UnreadableValueError(f"{text!r} is not a cron expression", _HINT)
    try:
        croniter(cron, datetime(2024, 1, 1, tzinfo=UTC)).get_next()
    except ValueError:
        raise UnreadableValueError(f"{text!r} names a day that never comes", _HINT) from None
    return cron


def parse_timezone(text: str) -> str:
    """Return the name of an IANA zone; raises ``UnreadableValueError``."""
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        hint = "Write an IANA name: Europe/Berlin, UTC."
        raise UnreadableValueError(f"{text!r} is not a time zone", hint) from None
    return text


def next_tick_ms(cron: str, timezone: str, after_ms: int) -> int:
    """Return the first tick later than ``after_ms``, both milliseconds since the epoch.

    In an hour that comes twice Dagster takes the second, unless the schedule ticks in every hour.
    """
    from croniter import croniter  # noqa: PLC0415  (as above)

    after = datetime.fromtimestamp(after_ms / 1000, ZoneInfo(timezone))
    is_hourly = cron.split()[1] == "*"
    begin = after.astimezone(UTC) - (timedelta() if is_hourly else _FOLD)
    ticks = croniter(cron, begin.astimezone(after.tzinfo))
    while True:
        tick: datetime = ticks.get_next(datetime)
        tick_ms = round((tick if is_hourly else tick.replace(fold=1)).timestamp() * 1000)
        if tick_ms > after_ms:
            return tick_ms
