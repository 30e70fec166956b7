"""Numbers as people read them, the same wherever they are told. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from spark_jobs.protocol.batch import Balance, Pause


def count(number: int, one: str, many: str | None = None) -> str:
    """``1 record``, ``2 records``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def records_wait(number: int) -> str:
    """``1 record waits``, ``2 records wait``."""
    return count(number, "record waits", "records wait")


def counts(
    balance: Balance,
    phases: Mapping[str, int] | None = None,
    reasons: Mapping[str, int] | None = None,
    tables: Mapping[str, int] | None = None,
) -> str:
    """Return what became of records: ``2 rows, 1 dead letter, 0 tombstones``; a further term by its name.

    With ``phases`` dead letters are told apart: ``3 dead letters (2 decode, 1 key)``; with ``reasons`` those
    that a filter left out, with ``tables`` those that are routed to others.
    """
    named = {"filtered": reasons, "routed": tables}
    letters = count(balance.dead_letters, "dead letter") + _told_apart(phases)
    further = "".join(
        f", {offsets:,} {term.replace('_', ' ')}{_told_apart(named.get(term))}"
        for term, offsets in balance.further.items()
    )
    return f"{count(balance.rows, 'row')}, {letters}, {count(balance.tombstones, 'tombstone')}{further}"


def _told_apart(numbers: Mapping[str, int] | None) -> str:
    told = ", ".join(f"{number:,} {name}" for name, number in sorted((numbers or {}).items()))
    return f" ({told})" if told else ""


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


def paused_line(paused: Pause) -> str:
    """Return since when, by whom and why a pipeline is paused."""
    return f"paused since {when(paused.at_ms * 1000)} by {paused.actor}: {paused.reason}"
