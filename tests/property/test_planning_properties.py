"""Planning never overlaps, never skips, never passes its bounds, and always gets on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.drain.planning import plan_ranges, plan_splits, water_fill
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges, merge
from spark_jobs.protocol.source import SourceState

counts = st.dictionaries(st.integers(0, 12), st.integers(0, 50_000), min_size=1)


@st.composite
def situations(draw: st.DrawFn) -> tuple[dict[int, int], SourceState]:
    """A table's progress and a source that can serve it; some partitions are new to the table."""
    progress, low, end = {}, {}, {}
    for partition in draw(st.sets(st.integers(0, 8), min_size=1)):
        low[partition] = draw(st.integers(0, 100))
        next_offset = low[partition] + draw(st.integers(0, 100))
        end[partition] = next_offset + draw(st.one_of(st.just(0), st.integers(0, 100_000)))
        if draw(st.booleans()):
            progress[partition] = next_offset
    if progress:
        low |= dict.fromkeys(low.keys() - progress.keys(), 0)  # else retention has passed them
    return progress, SourceState("t", "id", "cluster", low, end)


@given(situations(), st.integers(1, 50_000), st.integers(1, 10_000), st.integers(1, 10**8))
def test_a_batch_continues_exactly_where_the_table_ends(
    situation: tuple[dict[int, int], SourceState], max_records: int, bytes_per_record: int, max_bytes: int
) -> None:
    """Starts equal progress, ends stay below the last stable offsets, bounds hold, a backlog shrinks."""
    progress, source = situation
    ranges = plan_ranges(
        progress, source, max_records=max_records, bytes_per_record=bytes_per_record, max_bytes=max_bytes
    )
    for r in ranges:
        assert r.start == progress.get(r.partition, source.low[r.partition])
        assert r.end <= source.end[r.partition]
    assert ranges.records <= max(1, min(max_records, max_bytes // bytes_per_record))
    assert bool(ranges) == (source.lag(progress) > 0)
    assert source.lag({**progress, **ranges.ends}) == source.lag(progress) - ranges.records
    assert set(source.end) - set(progress) <= set(ranges.ends)


@given(situations(), st.integers(1, 30_000))
def test_batches_drain_everything_once(
    situation: tuple[dict[int, int], SourceState], max_records: int
) -> None:
    """Batch after batch the ranges join without overlap into the whole backlog."""
    progress, source = situation
    starts, done, batches = {**source.low, **progress}, [], 0
    limits = {
        "bytes_per_record": 1,
        "max_bytes": 10**9,
        "max_records": max(max_records, source.lag(progress) // 50),
    }
    while ranges := plan_ranges(progress, source, **limits):
        done += list(ranges)
        progress = {**progress, **ranges.ends}
        batches += 1
    whole = merge(OffsetRange(p, starts[p], end) for p, end in source.end.items())
    assert merge(done) == whole
    assert sum(map(len, done)) == sum(map(len, whole))


@given(counts, st.integers(0, 200_000))
def test_room_is_shared_fairly(wanted: dict[int, int], room: int) -> None:
    """All room is used that is wanted, and who does not get all has no less than anybody (but for one)."""
    shares = water_fill(wanted, room)
    assert sum(shares.values()) == min(room, sum(wanted.values()))
    assert all(0 <= shares[p] <= wanted[p] for p in wanted)
    unsatisfied = [shares[p] for p, want in wanted.items() if shares[p] < want]
    assert all(share >= max(shares.values()) - 1 for share in unsatisfied)


@given(counts, st.integers(1, 5_000), st.integers(1, 64 * 1024 * 1024), st.integers(1, 16))
def test_splits_cover_a_batch_exactly(
    ends: dict[int, int], bytes_per_record: int, max_split_bytes: int, parallelism: int
) -> None:
    """Every offset is in one split; splits are ordered, bounded and enough of them when there is work."""
    ranges = OffsetRanges.between(dict.fromkeys(ends, 0), ends)
    max_split_bytes = max(max_split_bytes, bytes_per_record * (ranges.records // 500 + 1))
    splits = plan_splits(
        ranges, bytes_per_record=bytes_per_record, max_split_bytes=max_split_bytes, parallelism=parallelism
    )
    pieces = [r for split in splits for r in split.ranges]
    assert pieces == sorted(pieces)
    assert merge(pieces) == merge(ranges)
    assert sum(map(len, pieces)) == ranges.records
    assert [split.split_id for split in splits] == list(range(len(splits)))
    for split in splits:
        records = sum(map(len, split.ranges))
        assert records
        assert records * bytes_per_record <= max_split_bytes or records == 1
    if ranges.records > 20_000 or ranges.records * bytes_per_record > 4 * 1024 * 1024:
        assert len(splits) >= min(parallelism, ranges.records)
