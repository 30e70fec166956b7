"""Planning a batch: fair, bounded, and stopped by a source that is not the one that was drained."""

from __future__ import annotations

import pytest

from spark_jobs.drain.planning import plan_ranges, plan_splits, water_fill
from spark_jobs.protocol.errors import OffsetsUnavailable, SourceChanged
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import SourceState, check_identity

MIB = 1024 * 1024


def _source_of(low: dict[int, int], end: dict[int, int], **ids: str | None) -> SourceState:
    identity = {"topic": "orders", "topic_id": "id-1", "cluster_id": "cluster-1", **ids}
    return SourceState(low=low, end=end, **identity)


def _plan(progress_next: dict[int, int], source: SourceState, max_records: int = 1_000_000) -> OffsetRanges:
    return plan_ranges(
        progress_next, source, max_records=max_records, bytes_per_record=100, max_bytes=100 * MIB
    )


def test_a_batch_takes_everything_that_fits() -> None:
    """Within the bounds every partition is planned from its next offset to its last stable one."""
    assert str(_plan({0: 5, 1: 7}, _source_of({0: 0, 1: 0}, {0: 10, 1: 7}))) == "0:5-10"


def test_small_backlogs_are_taken_whole_and_long_ones_share_the_rest() -> None:
    """A partition with 10 records is not made to wait by two with a million."""
    ranges = _plan(
        {0: 0, 1: 0, 2: 0}, _source_of({0: 0, 1: 0, 2: 0}, {0: 10**6, 1: 10, 2: 10**6}), max_records=1010
    )
    assert {r.partition: len(r) for r in ranges} == {0: 500, 1: 10, 2: 500}


def test_bytes_bound_a_batch_by_the_estimate() -> None:
    """A batch holds at most max_bytes of records of the estimated size, and at least one record."""
    source = _source_of({0: 0}, {0: 1000})
    by_bytes = plan_ranges({0: 0}, source, max_records=1000, bytes_per_record=100, max_bytes=2500)
    one = plan_ranges({0: 0}, source, max_records=1000, bytes_per_record=10 * MIB, max_bytes=MIB)
    assert (by_bytes.records, one.records) == (25, 1)


def test_what_does_not_divide_goes_somewhere() -> None:
    """Room for fewer records than partitions is used all the same."""
    assert sum(water_fill(dict.fromkeys(range(7), 100), 3).values()) == 3


def test_a_new_partition_begins_at_its_first_record() -> None:
    """One added after the table was made is read from offset 0 on, and recorded also when it is empty."""
    assert str(_plan({0: 10}, _source_of({0: 0, 1: 0}, {0: 10, 1: 5}))) == "1:0-5"
    ranges = _plan({0: 0}, _source_of({0: 0, 1: 0}, {0: 10, 1: 0}))
    assert ranges.ends == {0: 10, 1: 0}
    assert not _plan({0: 10}, _source_of({0: 0, 1: 0}, {0: 10, 1: 0}))


@pytest.mark.parametrize("end", [4, 9])
def test_a_new_partition_whose_first_records_are_gone_stops_the_plan(end: int) -> None:
    """Retention was faster than the first drain that knew of it: its records are missed, not passed over."""
    source = _source_of({0: 0, 1: 4}, {0: 10, 1: end})
    with pytest.raises(OffsetsUnavailable, match="offsets 0 to 3") as raised:
        _plan({0: 10}, source)
    assert raised.value.code == "retention-passed"
    assert "1:0-4" in raised.value.hint
    assert source.lag({0: 10}) == end


def test_a_table_that_is_not_made_yet_waits_for_what_kafka_holds() -> None:
    """It begins at the earliest offsets, and nothing of it can have been missed."""
    assert _source_of({0: 3}, {0: 10}).lag({}) == 7


@pytest.mark.parametrize(("next_offset", "code"), [(4, "retention-passed"), (21, "log-truncated")])
def test_an_offset_kafka_does_not_hold_stops_the_plan(next_offset: int, code: str) -> None:
    """A next offset below the earliest or beyond the last stable one is an error, never a jump."""
    with pytest.raises(OffsetsUnavailable) as raised:
        _plan({0: next_offset}, _source_of({0: 5}, {0: 20}))
    assert raised.value.code == code
    assert raised.value.where["partition"] == "0"


@pytest.mark.parametrize(
    ("ids", "end", "code"),
    [
        ({"topic": "orders_v2", "topic_id": "id-2"}, {0: 10}, "another-topic"),
        ({"topic_id": "id-2"}, {0: 10}, "topic-recreated"),
        ({"cluster_id": "cluster-2"}, {0: 10}, "cluster-moved"),
        ({"topic_id": None, "cluster_id": None}, {1: 10}, "topic-recreated"),
    ],
)
def test_another_source_is_refused(ids: dict[str, str | None], end: dict[int, int], code: str) -> None:
    """Another topic id, another cluster, or a partition that is gone stops everything."""
    progress = Progress("orders", 0, {0: 5}, cluster_id="cluster-1", topic_id="id-1")
    with pytest.raises(SourceChanged) as raised:
        check_identity(progress, _source_of(dict.fromkeys(end, 0), end, **ids), table="lake.orders")
    assert raised.value.code == code


def test_the_same_source_or_one_without_ids_passes() -> None:
    """Ids that one side lacks are not compared."""
    progress = Progress("orders", 0, {0: 5}, cluster_id="cluster-1", topic_id="id-1")
    check_identity(progress, _source_of({0: 0, 1: 0}, {0: 10, 1: 4}))
    check_identity(progress, _source_of({0: 0}, {0: 10}, topic_id=None, cluster_id=None))


def _splits_of(ends: dict[int, int], parallelism: int = 4) -> list[str]:
    ranges = OffsetRanges.between(dict.fromkeys(ends, 0), ends)
    splits = plan_splits(ranges, bytes_per_record=100, max_split_bytes=10 * MIB, parallelism=parallelism)
    return [" ".join(map(str, split.ranges)) for split in splits]


def test_little_work_is_one_split() -> None:
    """Many small partitions are packed into one task."""
    assert _splits_of({0: 10, 1: 0, 2: 20}) == ["0:0-10 2:0-20"]
    assert _splits_of({0: 0}) == []


def test_one_long_partition_keeps_all_tasks_busy() -> None:
    """Parallelism is not bound to the number of partitions."""
    assert _splits_of({0: 40_000}) == ["0:0-10000", "0:10000-20000", "0:20000-30000", "0:30000-40000"]


def test_splits_come_in_whole_waves() -> None:
    """No task is left alone at the end: five splits' worth of bytes becomes two waves of four."""
    splits = _splits_of({0: 104_857 * 5})
    assert len(splits) == 8


def test_lag_counts_unknown_partitions_from_their_start() -> None:
    """Lag is what is between the table's next offsets and the last stable ones."""
    assert _source_of({0: 0, 1: 0}, {0: 10, 1: 9}).lag({0: 7}) == 3 + 9
