"""Parsing of durations, sizes, times, schedules and starts; numbers without a unit are refused. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, WithJsonSchema

from spark_jobs.config.problems import wrong_value

DAY_SECONDS = 24 * 3600
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": DAY_SECONDS}
_BYTES = {
    "b": 1,
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", start=1)},
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", start=1)},
}
_QUANTITY = re.compile(r"(\d+)\s*([A-Za-z]+)")


def parse_duration_seconds(text: str) -> int:
    """Return the seconds of a duration such as ``30s``, ``5m``, ``7d``; raises ``UnreadableValueError``."""
    return _parse(text, _SECONDS, "a duration", "30s, 5m, 1h, 1d")


def parse_size_bytes(text: str) -> int:
    """Return the bytes of a size such as ``512KiB``, ``256MiB``, ``1GB``; raises ``UnreadableValueError``."""
    return _parse(text, _BYTES, "a size", "512KiB, 256MiB, 1GiB")


def format_size(size_bytes: int) -> str:
    """Return the shortest exact binary form: ``268435456`` is ``256MiB``."""
    return _shortest(size_bytes, {unit: _BYTES[unit.lower()] for unit in ("TiB", "GiB", "MiB", "KiB", "B")})


def format_duration(seconds: int) -> str:
    """Return the shortest exact form: ``3600`` is ``1h``."""
    return _shortest(seconds, dict(reversed(_SECONDS.items())))


def _shortest(quantity: int, units: dict[str, int]) -> str:
    """Return the number in the largest unit that divides it."""
    unit = next(
        unit for unit, factor in units.items() if factor == 1 or (quantity and quantity % factor == 0)
    )
    return f"{quantity // units[unit]}{unit}"


def _parse(text: str, units: dict[str, int], kind: str, examples: str) -> int:
    match = _QUANTITY.fullmatch(text.strip())
    factor = units.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise wrong_value("not-a-quantity", text=text, kind=kind, examples=examples)
    quantity = int(match[1]) * factor
    if quantity == 0:
        raise wrong_value("nothing", text=text, examples=examples)
    return quantity


# Where a table that does not exist yet begins to read, and how a person writes that.


class StartKind(StrEnum):
    """Kind of start of a new table."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIMESTAMP = "timestamp"
    OFFSETS = "offsets"


@dataclass(frozen=True, slots=True)
class Start:
    """Start of a new table; ``timestamp_ms`` only with TIMESTAMP, ``offsets`` only with OFFSETS."""

    kind: StartKind = StartKind.EARLIEST
    timestamp_ms: int | None = None
    offsets: dict[int, int] = field(default_factory=dict)


def parse_start(value: object) -> Start:
    """Return the start given as text or map of offsets; raises ``UnreadableValueError``."""
    if isinstance(value, Start):
        return value
    if isinstance(value, dict):
        return Start(StartKind.OFFSETS, offsets=_offsets(value))
    if not isinstance(value, str):
        raise wrong_value("not-one-value")
    if value in {StartKind.EARLIEST, StartKind.LATEST}:
        return Start(StartKind(value))
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise wrong_value("not-a-start", text=value) from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return Start(StartKind.TIMESTAMP, timestamp_ms=round(aware.timestamp() * 1000))


def _offsets(value: dict[Any, Any]) -> dict[int, int]:
    if not value or not all(str(item).isdecimal() for pair in value.items() for item in pair):
        raise wrong_value("not-offsets")
    return {int(partition): int(offset) for partition, offset in value.items()}


_OFFSETS_SCHEMA = {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}
_SCHEMA = WithJsonSchema({"anyOf": [{"type": "string"}, _OFFSETS_SCHEMA]})
StartText = Annotated[Start, BeforeValidator(parse_start), _SCHEMA]


# Cron expressions and time zones: which there are, and the next tick, as Dagster has it.


OFF = "off"
_FIELDS = 5
_FOLD = timedelta(hours=2)  # longer than any hour that comes twice


def parse_cron(text: str) -> str | None:
    """Return the cron expression, None for ``off``; raises ``UnreadableValueError`` if it never ticks."""
    from croniter import croniter  # noqa: PLC0415  (Spark workers read settings and have no use for it)

    cron = " ".join(text.split())
    if cron == OFF:
        return None
    if not (cron.count(" ") == _FIELDS - 1 and croniter.is_valid(cron)):
        raise wrong_value("not-cron", text=text)
    try:
        croniter(cron, datetime(2024, 1, 1, tzinfo=UTC)).get_next()
    except ValueError:
        raise wrong_value("cron-never", text=text) from None
    return cron


def parse_timezone(text: str) -> str:
    """Return the name of an IANA zone; raises ``UnreadableValueError``."""
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise wrong_value("not-a-timezone", text=text) from None
    return text


def next_tick_ms(cron: str, timezone: str, after_ms: int) -> int:
    """Return the first tick later than ``after_ms`` (epoch ms).

    In a repeated hour Dagster uses the second one, unless the schedule ticks every hour.
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
