"""Durations and sizes as people write them: ``60s``, ``256MiB``; a bare number is refused. Pure."""

from __future__ import annotations

import re

from spark_jobs.config.problems import UnreadableValueError

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
    return _parse(text, _SECONDS, "a duration", "Write a whole number and a unit: 30s, 5m, 1h, 1d.")


def parse_size_bytes(text: str) -> int:
    """Return the bytes of a size such as ``512KiB``, ``256MiB``, ``1GB``; raises ``UnreadableValueError``."""
    return _parse(text, _BYTES, "a size", "Write a whole number and a unit: 512KiB, 256MiB, 1GiB.")


def format_size(size_bytes: int) -> str:
    """Return the shortest exact binary form: ``268435456`` is ``256MiB``."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        factor = _BYTES[unit.lower()]
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return f"{size_bytes}B"


def format_duration(seconds: int) -> str:
    """Return the shortest exact form: ``3600`` is ``1h``."""
    for unit in ("d", "h", "m"):
        if seconds and seconds % _SECONDS[unit] == 0:
            return f"{seconds // _SECONDS[unit]}{unit}"
    return f"{seconds}s"


def _parse(text: str, units: dict[str, int], kind: str, hint: str) -> int:
    match = _QUANTITY.fullmatch(text.strip())
    factor = units.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise UnreadableValueError(f"{text!r} is not {kind}", hint)
    quantity = int(match[1]) * factor
    if quantity == 0:
        raise UnreadableValueError(f"{text!r} must be more than nothing", hint)
    return quantity
