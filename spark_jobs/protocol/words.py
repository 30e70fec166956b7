"""Numbers as people read them, the same wherever they are told. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def count(number: int, one: str, many: str | None = None) -> str:
    """``1 record``, ``2 records``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def records_wait(number: int) -> str:
    """``1 record waits``, ``2 records wait``."""
    return count(number, "record waits", "records wait")


def seconds(milliseconds: float) -> str:
    """Return milliseconds as people read them: ``340 ms``, ``4.2 s``, ``3 min 20 s``."""
    if milliseconds < 1000:  # noqa: PLR2004  (a second)
        return f"{milliseconds:.0f} ms"
    whole = milliseconds / 1000
    return f"{whole:.1f} s" if whole < 60 else f"{int(whole // 60)} min {int(whole % 60)} s"  # noqa: PLR2004


def rate(number: int, milliseconds: float) -> str:
    """Return ``412,000 a second``."""
    return f"{number / max(milliseconds, 1) * 1000:,.0f} a second"


def when(microseconds: int | None) -> str | None:
    """Return microseconds since the epoch as an ISO time in UTC, to the second."""
    if microseconds is None:
        return None
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
