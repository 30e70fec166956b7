"""What a redrive does to a table's progress, and what fences it."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.lake.coordinates import Coordinates
from spark_jobs.protocol.batch import Batch
from spark_jobs.protocol.offsets import NO_RANGES, OffsetRange, OffsetRanges
from spark_jobs.protocol.progress import PendingDeadLetters, Progress
from spark_jobs.protocol.progress_parts import (
    SEVERAL,
    SavedDeadLetters,
    cut_at_shapes,
    is_outdated,
    may_leave_out,
    shapes_after_drain,
    shapes_after_redrive,
)
from spark_jobs.protocol.source import has_passed, is_stale, may_replay, stands_at_starts, with_dead_letters
from spark_jobs.protocol.works.redrive import REDRIVE
from spark_jobs.replay.redrive_plan import BATCH_BYTES, BYTES, RedrivePlan
from spark_jobs.schema.iceberg_types import OFFSET, PARTITION

LETTERS = SavedDeadLetters("letters/u/a-00ff.parquet", 2)
TABLE = Progress("t", 1, {0: 10}, replay_epoch=3, shaped_by=shapes_after_drain((), "old", {0: 0}))
BATCH = Batch(
    "p",
    "a.b",
    "t",
    1,
    OffsetRanges.between({0: 2}, {0: 8}),
    "attempt-a",
    1,
    kind=REDRIVE,
    epoch=3,
    shaped_by="new",
    letters=LETTERS,
)
PLACES = (OffsetRange(0, 2, 3), OffsetRange(0, 7, 8))


def test_it_lands_in_its_epoch_once_and_is_never_adopted() -> None:
    """Its landing, a replay's, and a rollback's fence it alike; drains are not in its way."""
    assert may_replay(TABLE, BATCH)
    assert not stands_at_starts(TABLE, BATCH)
    assert may_replay(replace(TABLE, next_offsets={0: 20}), BATCH)
    assert not may_replay(replace(TABLE, next_offsets={0: 7}), BATCH)
    landed = TABLE.after_redrive(BATCH, (), PLACES)
    assert not may_replay(landed, BATCH)
    assert has_passed(landed, BATCH)
    assert landed.has_landed(BATCH.attempt)


def test_it_moves_no_offset_and_owes_exactly_its_letters() -> None:
    """The debt is stale once the dead-letter table has the epoch; paying it moves nothing there either."""
    landed = TABLE.after_redrive(BATCH, (), PLACES)
    owed = landed.pending_dead_letters
    assert owed == PendingDeadLetters("attempt-a", NO_RANGES, (), replaces=True, redriven=LETTERS)
    assert (landed.next_offsets, landed.redrives, landed.format_version) == (TABLE.next_offsets, 1, 3)
    letters = Progress("t", 1, {0: 5}, replay_epoch=3)
    assert not is_stale(letters, landed, owed)
    paid = with_dead_letters(letters, landed, owed)
    assert (paid.next_offsets, paid.has_landed("attempt-a")) == ({0: 5}, True)
    assert is_stale(paid, landed, owed)


def test_other_letters_of_the_same_ranges_are_other_work() -> None:
    """A batch is named after what is in it, whoever tries it."""
    other = replace(BATCH, letters=SavedDeadLetters("letters/u/b-00ee.parquet", 2))
    again = replace(BATCH, attempt="b", letters=SavedDeadLetters("letters/u/b-00ff.parquet", 2))
    assert BATCH.batch_id == again.batch_id != other.batch_id
    assert (BATCH.records, BATCH.ranges.records) == (2, 6)


def test_what_lies_between_letters_stays_as_it_was_made() -> None:
    """Each letter by itself, until they are too many: then nothing between is taken for wrong any more."""
    few = shapes_after_redrive(TABLE.shaped_by, "new", PLACES, ())
    assert [(str(r), shape) for r, shape in cut_at_shapes(OffsetRange(0, 0, 10), few)] == [
        ("0:0-2", "old"),
        ("0:2-3", "new"),
        ("0:3-7", "old"),
        ("0:7-8", "new"),
        ("0:8-10", "old"),
    ]
    assert shapes_after_redrive(few, "new", PLACES, ()) == few
    end = 2_000
    hull = [OffsetRange(0, 0, end - 1), OffsetRange(1, 0, end - 1)]
    many = shapes_after_redrive(shapes_after_drain((), "old", {0: 0, 1: 0}), "new", None, hull)
    for partition in (0, 1):
        cut = [*cut_at_shapes(OffsetRange(partition, 0, end), many)]
        assert [shape for _, shape in cut] == [SEVERAL, "old"]
    assert shapes_after_redrive(shapes_after_drain((), "new", {0: 0, 1: 0}), "new", None, hull) == (
        shapes_after_drain((), "new", {0: 0, 1: 0})
    )
    assert all(is_outdated(SEVERAL, today) and may_leave_out(SEVERAL, today) for today in ("old", "new"))


@given(
    st.sets(st.tuples(st.integers(0, 2), st.integers(0, 30))),
    st.integers(0, 2),
    st.integers(0, 30),
    st.integers(1, 9),
)
def test_a_set_of_coordinates_is_what_a_set_is(
    places: set[tuple[int, int]], partition: int, start: int, length: int
) -> None:
    """Membership, overlap, cover and what lies inside a range, of runs and of single offsets."""
    every = [(p, o) for p in range(3) for o in range(32)]
    rows = pa.table({PARTITION: [p for p, _ in every], OFFSET: [o for _, o in every]})
    named = Coordinates.of_rows(rows.filter(pa.array([place in places for place in every])))
    assert {place for place, held in zip(every, named.holds(rows), strict=True) if held} == places
    span = OffsetRange(partition, start, start + length)
    inside = {(p, o) for p, o in places if p == partition and o in span}
    assert named.overlap(span) is bool(inside)
    assert named.cover(span) is (len(inside) == length)
    assert {
        (r.partition, o) for r in named.within(OffsetRanges((span,))).ranges for o in range(r.start, r.end)
    } == inside


@pytest.mark.parametrize(
    ("sizes", "max_letters", "batches"),
    [([1, 1, 1, 1, 1], 2, [2, 2, 1]), ([BATCH_BYTES, 1, BATCH_BYTES * 2, 1], 9, [1, 1, 1, 1]), ([], 9, [])],
)
def test_batches_are_within_both_bounds(sizes: list[int], max_letters: int, batches: list[int]) -> None:
    """A letter that is larger than all a batch may hold is one alone; all are in one."""
    count = len(sizes)
    letters = pa.table({PARTITION: [0] * count, OFFSET: [*range(count)], BYTES: pa.array(sizes, pa.int64())})
    assert [len(part) for part in RedrivePlan(letters, {}).batches(max_letters)] == batches
