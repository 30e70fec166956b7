"""Which files a replacement touches: whatever rows they hold, none too many is dropped and none forgotten."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.commit.replace import FileBounds, Overlap, ReplacedOffsets
from spark_jobs.protocol.offsets import OffsetRange

COORDINATES = st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 12))
RANGES = st.builds(
    lambda partition, start, length: OffsetRange(partition, start, start + length),
    st.integers(0, 2),
    st.integers(0, 10),
    st.integers(0, 6),
)


@given(st.lists(COORDINATES, min_size=1), st.lists(RANGES))
def test_a_file_is_judged_by_its_bounds(rows: list[tuple[int, int, int]], ranges: list[OffsetRange]) -> None:
    """INSIDE only when every row is replaced, NONE only when no row is; STRADDLES promises nothing."""
    replaced = ReplacedOffsets.of(1, ranges)
    generations, partitions, offsets = zip(*rows, strict=True)
    bounds = FileBounds(
        *((min(values), max(values)) for values in (generations, partitions, offsets)),
    )
    is_replaced = [
        generation == 1 and any(r.partition == partition and offset in r for r in ranges)
        for generation, partition, offset in rows
    ]
    overlap = replaced.overlap(bounds)
    assert overlap is not Overlap.INSIDE or all(is_replaced)
    assert overlap is not Overlap.NONE or not any(is_replaced)


@given(st.lists(RANGES))
def test_a_file_without_bounds_is_looked_into(ranges: list[OffsetRange]) -> None:
    """Nothing is known of its rows."""
    assert ReplacedOffsets.of(1, ranges).overlap(None) is Overlap.STRADDLES
