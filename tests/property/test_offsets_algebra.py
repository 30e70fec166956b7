"""The algebra of offset ranges, held against sets of offsets."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges, gaps, merge


@st.composite
def _ranges(draw: st.DrawFn, max_partition: int = 2) -> OffsetRange:
    start = draw(st.integers(0, 30))
    return OffsetRange(draw(st.integers(0, max_partition)), start, start + draw(st.integers(0, 12)))


def _offsets_of(*some: OffsetRange) -> set[tuple[int, int]]:
    return {(r.partition, offset) for r in some for offset in range(r.start, r.end)}


@given(_ranges(), st.integers(1, 8))
def test_cutting_loses_and_doubles_nothing(whole: OffsetRange, max_records: int) -> None:
    """The pieces follow each other, are bounded, and together are the range."""
    pieces = list(whole.cut(max_records))
    assert all(0 < len(piece) <= max_records for piece in pieces)
    assert _offsets_of(*pieces) == _offsets_of(whole)
    assert sum(map(len, pieces)) == len(whole)


@given(st.lists(_ranges(), max_size=8))
def test_merging_is_the_union_in_fewest_ranges(some: list[OffsetRange]) -> None:
    """The result covers the same offsets once, ordered, no two ranges touching."""
    merged = merge(some)
    assert _offsets_of(*merged) == _offsets_of(*some)
    assert all((a.partition, a.end) < (b.partition, b.start) for a, b in pairwise(merged))
    assert merge(merged) == merged


@given(_ranges(max_partition=0), st.lists(_ranges(max_partition=1), max_size=6))
def test_gaps_are_what_is_missing(whole: OffsetRange, parts: list[OffsetRange]) -> None:
    """Gaps and parts cover the whole; no gap holds an offset of a part."""
    missing = gaps(whole, parts)
    assert _offsets_of(*missing) == _offsets_of(whole) - _offsets_of(*parts)
    assert merge(missing) == missing


@given(_ranges(), _ranges())
def test_overlap_is_symmetric_and_means_a_common_offset(a: OffsetRange, b: OffsetRange) -> None:
    """Two ranges overlap exactly when an offset is in both."""
    assert a.overlaps(b) == b.overlaps(a) == bool(_offsets_of(a) & _offsets_of(b))


@given(st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 50), st.integers(0, 50))))
def test_starts_and_ends_round_trip(bounds: dict[int, tuple[int, int]]) -> None:
    """Ranges made from starts and ends give both back and count their offsets."""
    starts = {p: start for p, (start, _) in bounds.items()}
    ends = {p: start + more for p, (start, more) in bounds.items()}
    made = OffsetRanges.between(starts, ends)
    assert (made.starts, made.ends) == (starts, ends)
    assert made.records == sum(ends.values()) - sum(starts.values())
    assert bool(made) == (made.records > 0)


def test_what_is_no_range_is_refused() -> None:
    """An end before its start, a negative offset, two ranges of one partition."""
    for partition, start, end in ((0, 5, 4), (0, -1, 4), (-1, 0, 4)):
        with pytest.raises(ValueError, match="not an offset range"):
            OffsetRange(partition, start, end)
    with pytest.raises(ValueError, match="one per partition"):
        OffsetRanges((OffsetRange(0, 0, 1), OffsetRange(0, 1, 2)))
