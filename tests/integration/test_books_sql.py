"""The SQL that the operations guide gives for the books, run as it stands there."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from spark_jobs.books.entries import BookEntry, entry_of
from spark_jobs.books.table import enter
from spark_jobs.protocol.batch import Balance, BatchCounts
from spark_jobs.txlog.entries import Attempt
from tests.support.lake import Lake
from tests.support.log_entries import TABLE_UUID, finished_phases, make_batch

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "history-and-trace.md"
SECTION = GUIDE.read_text().partition("\n## Read the history by SQL\n")[2].partition("\n## ")[0]
COMPLETE, BALANCED, COST, SERVICE_LEVEL, BY_HAND = re.findall(r"```sql\n(.*?)```", SECTION, re.DOTALL)
START_US = 1_767_225_600_000_000
SECOND_US = 1_000_000


def entry(attempt: str, start: int, end: int, **changes: Any) -> BookEntry:
    """A landed attempt at these offsets that took two seconds and left the table 30 s behind."""
    batch = make_batch(attempt, start=start, end=end, at_us=START_US + start * SECOND_US)
    made = entry_of(Attempt(TABLE_UUID, attempt, batch, finished_phases(batch), (), 6))
    assert made is not None
    finished_at_us = made.started_at_us + 2 * SECOND_US
    through = finished_at_us // 1000 - 30_000
    return replace(made, **{"finished_at_us": finished_at_us, "valid_through_ms": through, **changes})


@pytest.fixture
def lake(sqlite_catalog_properties: dict[str, str]) -> Lake:
    """The embedded catalog."""
    return Lake("sqlite", sqlite_catalog_properties, "demo")


def ask(lake: Lake, sql: str, *entries: BookEntry) -> list[tuple[Any, ...]]:
    """What the query says of books with these entries."""
    enter(lake.access(), lake.name("sluice_batches"), entries, fold="fold")
    sluice_batches = lake.load("sluice_batches").scan().to_arrow()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("sluice_batches", sluice_batches)
        return connection.execute(sql).fetchall()


def test_a_hole_in_the_books_is_found(lake: Lake) -> None:
    """Offsets that no landed batch covers are named; a skip covers some, an attempt given up none."""
    given_up = entry("lost", 20, 30, is_landed=False)
    skipped = entry("skipped", 30, 40, kind="skip", counts=BatchCounts())
    entries = (
        entry("a", 0, 10),
        entry("b", 10, 20),
        given_up,
        skipped,
        entry("c", 40, 50),
        entry("d", 5, 20),
    )
    again = entry("again", 5, 20)
    assert ask(lake, COMPLETE, *entries, again) == [("demo.t", 0, 0, 20, 30)]


def test_unaccounted_offsets_are_found(lake: Lake) -> None:
    """Every landed batch balances, skipped offsets and replays included; one that does not is named."""
    off = entry("off", 20, 30, counts=BatchCounts({0: Balance(rows=7, gaps=1)}))
    skipped = entry("s", 10, 20, kind="skip", counts=BatchCounts())
    good = (entry("a", 0, 10), entry("r", 0, 10, kind="replay"), skipped)
    paused = entry("p", 0, 0, kind="pause", counts=BatchCounts())
    assert ask(lake, BALANCED, *good, off, paused) == [("demo.t", "off", 2)]


def test_cost_by_day(lake: Lake) -> None:
    """What landed is added up by table and day; an attempt that was given up costs no row."""
    tomorrow = entry("c", 20, 30, started_at_us=START_US + 86_400 * SECOND_US)
    rows = ask(lake, COST, entry("a", 0, 10), entry("b", 10, 20), tomorrow, entry("x", 0, 9, is_landed=False))
    assert [(str(row[1]), *row[2:]) for row in rows] == [
        ("2026-01-01", 2, 20, 4_800, 1_800, 2, 0.06),
        ("2026-01-02", 1, 10, 2_400, 900, 1, 0.03),
    ]


def test_service_level_by_day(lake: Lake) -> None:
    """Of four batches one left the table more than a minute behind."""
    late = entry("d", 30, 40, valid_through_ms=START_US // 1000 - 60_000)
    rows = ask(lake, SERVICE_LEVEL, entry("a", 0, 10), entry("b", 10, 20), entry("c", 20, 30), late)
    assert [(str(day), share, round(p99, 1)) for _, day, share, p99 in rows] == [("2026-01-01", 0.75, 2.0)]


def test_what_was_done_by_hand(lake: Lake) -> None:
    """Operators' acts are listed with who and why, drains are not."""
    paused = entry("p", 0, 0, kind="pause", actor="ana@host", reason="broker moves")
    rows = ask(lake, BY_HAND, entry("a", 0, 10), paused)
    assert [row[1:] for row in rows] == [
        ("demo.t", "pause", [{"partition": 0, "start": 0, "end": 0}], "ana@host", "broker moves")
    ]
