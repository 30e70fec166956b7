"""What is skipped is accounted for exactly once, also when a table goes back and drains again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.acts.changes import plan_rewind, rewind_progress
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.progress import Progress, progress_from_properties
from spark_jobs.protocol.progress_parts import Skip, cut_at_skips, skipped_ranges, skips_below, with_skipped
from spark_jobs.protocol.source import SourceState

PARTITIONS = st.integers(0, 3)
OFFSETS = st.integers(0, 60)
RANGES = st.builds(lambda p, a, b: OffsetRange(p, min(a, b), max(a, b)), PARTITIONS, OFFSETS, OFFSETS)
BY_PARTITION = st.dictionaries(PARTITIONS, OFFSETS, min_size=1)


def _offsets(skips: tuple[Skip, ...], generation: int) -> set[tuple[int, int]]:
    return {(s.partition, o) for s in skips if s.generation == generation for o in range(s.start, s.end)}


@given(st.lists(RANGES, max_size=6), st.text(max_size=3))
def test_joined_skips_are_the_same_offsets(ranges: list[OffsetRange], reason: str) -> None:
    """And come back from the table's properties as they were."""
    skips: tuple[Skip, ...] = ()
    for r in ranges:
        skips = with_skipped(skips, 1, [r], reason)
    assert _offsets(skips, 1) == {(r.partition, o) for r in ranges for o in range(r.start, r.end)}
    properties = Progress("orders", 1, {0: 1}, skipped=skips, rollbacks=2).to_properties()
    assert progress_from_properties(properties, table="t").skipped == skips


@given(RANGES.filter(len), st.lists(RANGES, max_size=6))
def test_pieces_between_skips_are_the_whole(whole: OffsetRange, ranges: list[OffsetRange]) -> None:
    """In order, each either all skipped or not at all."""
    skipped = skipped_ranges(with_skipped((), 1, ranges, "x"), 1, whole.partition)
    pieces = list(cut_at_skips(whole, skipped))
    assert [o for piece, _ in pieces for o in range(piece.start, piece.end)] == list(
        range(whole.start, whole.end)
    )
    for piece, is_skipped in pieces:
        assert all(any(o in r for r in skipped) is is_skipped for o in range(piece.start, piece.end))


@given(st.lists(RANGES, max_size=6), BY_PARTITION)
def test_going_back_keeps_the_skips_below_and_those_of_other_generations(
    ranges: list[OffsetRange], back: dict[int, int]
) -> None:
    """What will be drained again is skipped no longer."""
    skips = with_skipped(with_skipped((), 1, ranges, "old"), 2, ranges, "new")
    kept = skips_below(skips, 2, back)
    assert _offsets(kept, 1) == _offsets(skips, 1)
    assert _offsets(kept, 2) == {(p, o) for p, o in _offsets(skips, 2) if o < back.get(p, 0)}


@given(BY_PARTITION, BY_PARTITION, BY_PARTITION)
def test_after_a_rollback_every_offset_is_kept_drained_again_or_skipped(
    stood: dict[int, int], target: dict[int, int], low: dict[int, int]
) -> None:
    """Nothing of what the table had is forgotten, and no drain planned before is let in."""
    progress = Progress("orders", 1, stood, starts=dict.fromkeys(stood, 0))
    source = SourceState("orders", None, None, {p: low.get(p, 0) for p in stood}, dict.fromkeys(stood, 100))
    rewind = plan_rewind(progress, target, source)
    there = rewind_progress(progress, rewind, None, None, attempt="a", reason="wrong")
    assert there.rollbacks == progress.rollbacks + 1
    assert there.replay_epoch == progress.replay_epoch + 1
    skipped = _offsets(there.skipped, 1)
    for partition, end in stood.items():
        back = min(target.get(partition, 0), end)
        again = set(range(there.next_offsets[partition], end))
        lost = {o for p, o in skipped if p == partition}
        assert again | lost == set(range(back, end))
        assert not again & lost
        assert all(o >= source.low[partition] for o in again)
