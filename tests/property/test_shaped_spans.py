"""By which configuration a record's row was made: what was done to the table, said of each offset."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.protocol.batch import Batch
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.protocol.progress import PendingDeadLetters, Progress, progress_from_properties
from spark_jobs.protocol.progress_parts import (
    LEAVES_OUT,
    MAX_BYTES,
    UNKNOWN,
    ShapedSpan,
    cut_at_shapes,
    is_outdated,
    may_leave_out,
    shapes_after_drain,
    shapes_after_rollback,
)
from spark_jobs.protocol.works.replay import REPLAY

SHAPES = st.sampled_from(["a", "b", LEAVES_OUT + "c", UNKNOWN])
KINDS = st.sampled_from(["drain", "replay", "rollback"])
LENGTHS = st.dictionaries(st.integers(0, 2), st.integers(1, 6), min_size=1)
PLACES = st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(1, 6))


def shapes_of(progress: Progress) -> dict[tuple[int, int], str]:
    """Return what is said of every drained offset."""
    return {
        (piece.partition, at): shape
        for p, end in progress.next_offsets.items()
        for piece, shape in cut_at_shapes(OffsetRange(p, 0, end), progress.shaped_by)
        for at in range(piece.start, piece.end)
    }


@given(
    st.lists(
        st.tuples(st.sampled_from(["drain", "replay", "rollback"]), LENGTHS, PLACES, SHAPES), max_size=12
    )
)
def test_every_offset_has_the_shape_it_was_last_made_by(
    done: list[tuple[str, dict[int, int], tuple[int, int, int], str]],
) -> None:
    """After drains, replays of any range and rollbacks; equal neighbours are one span."""
    progress, made = Progress("t", 1, dict.fromkeys(range(3), 0)), dict[tuple[int, int], str]()
    for kind, lengths, (partition, start, length), shape in done:
        at = progress.next_offsets
        if kind == "rollback":
            back = {p: max(0, offset - lengths.get(p, 0)) for p, offset in at.items()}
            spans = shapes_after_rollback(progress.shaped_by, back)
            progress = replace(progress, next_offsets=back, shaped_by=spans)
            made = {place: each for place, each in made.items() if place[1] < back[place[0]]}
            continue
        ranges = [OffsetRange(p, at[p], at[p] + more) for p, more in lengths.items()]
        if kind == "replay":
            ranges = [OffsetRange(partition, min(start, at[partition]), min(start + length, at[partition]))]
        batch = Batch("p", "a.b", "t", 1, OffsetRanges.of(ranges), "attempt", 0, shaped_by=shape)
        if kind == "drain":
            progress = progress.after_batch(batch, None)
        elif batch.ranges:
            again = replace(batch, kind=REPLAY)
            progress = progress.after_replay(again, PendingDeadLetters("attempt", batch.ranges, ()))
        made |= {(r.partition, offset): shape for r in ranges for offset in range(r.start, r.end)}
        assert shapes_of(progress) == made
        assert progress_from_properties(progress.to_properties(), table="a.b") == progress


def test_one_configuration_is_one_span_for_ever() -> None:
    """Also of partitions that come later, and what was replayed by it joins it again."""
    spans = shapes_after_drain((), "a", {0: 0})
    for start in range(10, 100, 10):
        spans = shapes_after_drain(spans, "a", {0: start, start: 0})
    assert len(spans) == 1
    assert spans[0].starts == {0: 0} | dict.fromkeys(range(10, 100, 10), 0)


def test_the_oldest_are_forgotten_beyond_a_bound() -> None:
    """And never that records may have been left out among them."""
    spans: tuple[ShapedSpan, ...] = ()
    for number in range(40):
        shape = LEAVES_OUT + str(number) if number == 0 else str(number)
        spans = shapes_after_drain(spans, shape, dict.fromkeys(range(200), number * 1000000))
        assert sum(len(str(span.starts)) for span in spans) < 2 * MAX_BYTES
    ((_, oldest),) = cut_at_shapes(OffsetRange(0, 0, 10), spans)
    assert oldest == LEAVES_OUT + UNKNOWN
    assert spans[-1].shape == "39"


def test_what_is_outdated_is_known_to_be_another() -> None:
    """Of what nobody knows, rows that differ are wrong, as they were before anything was kept."""
    assert [is_outdated(each, "t") for each in ("t", "u", UNKNOWN, LEAVES_OUT, LEAVES_OUT + "t")] == [
        *(False, True, False, False, True)
    ]
    assert [may_leave_out(each, LEAVES_OUT + "t") for each in ("u", LEAVES_OUT, LEAVES_OUT + "t")] == [
        *(False, True, False)
    ]
