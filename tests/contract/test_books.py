"""The books over every catalog: born once, each attempt entered once, read back as entered."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_jobs.books.entries import BookEntry, books_of, entry_of
from spark_jobs.books.table import covering, enter, newest_first
from spark_jobs.books.totals import sum_books
from spark_jobs.lake.row_filters import equals
from spark_jobs.protocol.batch import Balance, BatchCounts
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.txlog.entries import Attempt
from tests.support.log_entries import TABLE_UUID, finished_phases, make_batch

if TYPE_CHECKING:
    from tests.support.lake import Lake

BOOKS = "sluice_batches"
LATE_2025_US = 1_767_225_599_999_999
MINUTE_US = 60_000_000


def entry(attempt: str, start: int, at_us: int = LATE_2025_US) -> BookEntry:
    """A landed attempt at [start, start + 10) of partition 0."""
    batch = make_batch(attempt, start=start, end=start + 10, at_us=at_us)
    made = entry_of(Attempt(TABLE_UUID, attempt, batch, finished_phases(batch), (), 6))
    assert made is not None
    return made


def fold(lake: Lake, *entries: BookEntry) -> int:
    """Enter them under a commit of their own; rows added."""
    books = books_of(lake.name())
    return enter(lake.access(), books, entries, fold=uuid.uuid4().hex).rows


def all_entries(lake: Lake) -> list[BookEntry]:
    """Every entry, newest first."""
    return list(newest_first(lake.load(BOOKS), equals("topic", "t")))


def test_entries_come_back(lake: Lake) -> None:
    """What is entered is read back, over the months newest first, with every field as it was."""
    ranges = OffsetRanges.of([OffsetRange(0, 5, 9), OffsetRange(3, 2**40, 2**40 + 2)])
    full = replace(
        entry("b", 0, LATE_2025_US + 1),
        ranges=ranges,
        counts=BatchCounts(
            {0: Balance(rows=1, dead_letters=1, tombstones=1, gaps=1), 3: Balance(gaps=2)}, 5, 6, 7, 8
        ),
        durations_ms={"log": 3, "commit": 2**33},
        dead_letter_snapshot_id=2**62,
        reason='it\'s "why"',
        valid_through_ms=1_767_225_600_001,
    )
    bare = replace(
        entry("a", 0), is_landed=False, counts=BatchCounts(), finished_at_us=None, snapshot_id=None
    )
    assert fold(lake, bare, full) == 2
    assert all_entries(lake) == [full, bare]


def test_books_take_a_term_of_the_balance_that_they_have_no_column_for(lake: Lake) -> None:
    """From its first entry on; the entries before it are as they were, and totals have it by its name."""
    four = entry("a", 0)
    five = replace(entry("b", 10, LATE_2025_US + 1), counts=BatchCounts({0: Balance(rows=7, filtered=3)}))
    assert [fold(lake, four), fold(lake, five)] == [1, 1]
    assert all_entries(lake) == [five, four]
    totals, _ = sum_books(lake.load(BOOKS), TABLE_UUID, ())
    assert totals.balance == four.counts.balance + five.counts.balance


def test_books_of_before_take_the_phases_of_dead_letters(lake: Lake) -> None:
    """From the first batch with any on; those before it have none, and totals count what there are."""
    before = replace(entry("a", 0), counts=BatchCounts({0: Balance(dead_letters=2)}))
    fold(lake, before)
    with lake.load(BOOKS).update_schema() as update:
        update.delete_column("dead_letter_phases")
    bare = replace(entry("b", 10, LATE_2025_US + 1), counts=before.counts)
    counts = BatchCounts({0: Balance(dead_letters=3)}, dead_letter_phases={"decode": 2, "key": 1})
    told = replace(entry("c", 20, LATE_2025_US + 2), counts=counts)
    assert fold(lake, bare) == 1
    assert sum_books(lake.load(BOOKS), TABLE_UUID, ())[0].dead_letter_phases == {}
    assert fold(lake, told) == 1
    assert all_entries(lake) == [told, bare, before]
    totals, _ = sum_books(lake.load(BOOKS), TABLE_UUID, ())
    assert (totals.balance.dead_letters, totals.dead_letter_phases) == (7, {"decode": 2, "key": 1})


def test_an_attempt_is_entered_once(lake: Lake) -> None:
    """Entered again, alone or among others, an attempt stays as it was entered first."""
    first, second = entry("a", 0), entry("b", 10, LATE_2025_US + MINUTE_US)
    assert fold(lake, first) == 1
    assert fold(lake, replace(first, actor="less")) == 0
    assert fold(lake, replace(first, actor="less"), second) == 1
    assert all_entries(lake) == [second, first]


def test_folds_at_once_enter_each_attempt_once(lake: Lake) -> None:
    """Pipelines of one namespace fold into the same books at the same time, from their first fold on."""
    shared = entry("shared", 0)
    with ThreadPoolExecutor(4) as pool:
        added = list(pool.map(lambda n: fold(lake, shared, entry(f"own-{n}", 10 * n)), range(4)))
    assert sum(added) == 5
    assert sorted(e.attempt for e in all_entries(lake)) == ["own-0", "own-1", "own-2", "own-3", "shared"]


def test_the_books_know_which_batch_an_offset_was_in(sqlite_lake: Lake) -> None:
    """Ends are exclusive, partitions and tables are apart, every attempt at an offset is found."""
    wide = replace(entry("wide", 0), ranges=OffsetRanges.of([OffsetRange(0, 5, 15), OffsetRange(1, 0, 3)]))
    other = replace(entry("other", 0), table_uuid="another")
    fold(sqlite_lake, entry("a", 0), entry("b", 10), wide)
    fold(sqlite_lake, other)
    found = {
        at: sorted(e.attempt for e in covering(sqlite_lake.load(BOOKS), TABLE_UUID, *at))
        for at in ((0, 0), (0, 9), (0, 10), (0, 20), (1, 2), (1, 3))
    }
    assert found == {
        (0, 0): ["a"],
        (0, 9): ["a", "wide"],
        (0, 10): ["b", "wide"],
        (0, 20): [],
        (1, 2): ["wide"],
        (1, 3): [],
    }
