"""Which offsets a replay takes, and the windows that the UI offers."""

from __future__ import annotations

import pytest
from dagster import AddDynamicPartitionsRequest, DeleteDynamicPartitionsRequest

from orchestration.windows_sensor import requests_for
from spark_jobs.protocol.errors import ConfigError, OffsetsUnavailable
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.progress_parts import Skip
from spark_jobs.protocol.source import SourceState
from spark_jobs.replay.ranges import (
    WINDOW_OFFSETS,
    cut_at,
    cut_into_batches,
    parse_range,
    require_held,
    span_ranges,
    window_bounds,
    window_key,
    window_keys,
    window_ranges,
)


def source(low: dict[int, int], end: dict[int, int]) -> SourceState:
    """A topic that holds these offsets."""
    return SourceState("t", "i", "c", low, end)


def test_a_range_is_read_as_it_is_printed() -> None:
    """``P:START-END`` there and back."""
    assert parse_range("3:100-200") == OffsetRange(3, 100, 200)
    assert parse_range(str(OffsetRange(0, 7, 9))) == OffsetRange(0, 7, 9)


@pytest.mark.parametrize("text", ["", "100-200", "0:200-100", "0:5-5", "0:-1-5", "a:1-2", "0:1-2-3"])
def test_what_is_no_range_is_refused(text: str) -> None:
    """With the form it should have."""
    with pytest.raises(ConfigError) as refused:
        parse_range(text)
    assert refused.value.code == "replay-range-malformed"


def test_windows_have_names_of_one_width() -> None:
    """Their order as text is their order as offsets."""
    assert window_key(0) == "000000000000-000000500000"
    assert window_bounds(window_key(7 * WINDOW_OFFSETS)) == (3_500_000, 4_000_000)


@pytest.mark.parametrize(
    "text", ["", "all", "0-500000", "000000000001-000000500001", "000000000000-000001000000"]
)
def test_what_is_no_window_is_refused(text: str) -> None:
    """Another width, another start, another spelling."""
    with pytest.raises(ConfigError) as refused:
        window_bounds(text)
    assert refused.value.code == "replay-window-malformed"


def test_windows_reach_from_kafkas_earliest_to_the_next_offset() -> None:
    """Over all partitions; what Kafka has deleted in each is pruned, what is not drained is not there."""
    topic = source({0: 1_200_000, 1: 600_000}, {0: 9_000_000, 1: 9_000_000})
    keys = window_keys(topic, {0: 1_500_000, 1: 700_000})
    assert keys == (window_key(500_000), window_key(1_000_000))
    assert window_keys(topic, {0: 1_200_000, 1: 600_000}) == ()
    assert window_ranges(keys[0], topic, {0: 1_500_000, 1: 700_000}) == (OffsetRange(1, 600_000, 700_000),)
    assert window_ranges(keys[1], topic, {0: 1_500_000, 1: 700_000}) == (
        OffsetRange(0, 1_200_000, 1_500_000),
    )


def test_a_span_is_what_kafka_holds_of_the_table_and_nobody_skipped() -> None:
    """Without a start the table's own first offset; a given start reaches before it, as a backfill does."""
    progress = Progress(
        *("t", 0, {0: 100, 1: 50}), starts={0: 10, 1: 20}, skipped=(Skip(0, 0, 60, 61, "poison"),)
    )
    topic = source({0: 5, 1: 30}, {0: 120, 1: 50})
    whole, gone = span_ranges(progress, topic, None, None)
    assert whole == (OffsetRange(0, 10, 60), OffsetRange(0, 61, 120), OffsetRange(1, 30, 50))
    assert gone == (OffsetRange(1, 20, 30),)
    assert span_ranges(progress, topic, {0: 7, 1: 50}, None) == (
        (OffsetRange(0, 7, 60), OffsetRange(0, 61, 120)),
        (),
    )
    assert span_ranges(progress, topic, None, {0: 12, 1: 25}) == (
        (OffsetRange(0, 10, 12),),
        (OffsetRange(1, 20, 25),),
    )


def test_what_is_ahead_of_the_table_is_told_apart() -> None:
    """Cut at the next offset of each partition; a partition the table does not know is wholly ahead."""
    drained, ahead = cut_at(
        [OffsetRange(0, 5, 20), OffsetRange(0, 18, 40), OffsetRange(1, 50, 60), OffsetRange(2, 0, 1)],
        {0: 30, 1: 50},
    )
    assert drained == (OffsetRange(0, 5, 30),)
    assert ahead == (OffsetRange(0, 30, 40), OffsetRange(1, 50, 60), OffsetRange(2, 0, 1))


def test_what_kafka_deleted_is_refused_with_what_is_left() -> None:
    """The message names the part that can be replayed, or that there is none."""
    topic = source({0: 15}, {0: 100})
    require_held([OffsetRange(0, 15, 30)], topic)
    with pytest.raises(OffsetsUnavailable, match=r"still has 0:15-30"):
        require_held([OffsetRange(0, 10, 30)], topic)
    with pytest.raises(OffsetsUnavailable, match="still has nothing "):
        require_held([OffsetRange(0, 1, 9)], topic)


def test_batches_together_are_the_ranges() -> None:
    """Several ranges of one partition, one of a batch each; none is longer than the room."""
    ranges = [OffsetRange(0, 0, 50), OffsetRange(0, 70, 80), OffsetRange(1, 5, 6), OffsetRange(2, 0, 30)]
    batches = list(cut_into_batches(ranges, 20))
    assert all(batch.records <= 20 for batch in batches)
    covered = sorted((r.partition, o) for batch in batches for r in batch for o in range(r.start, r.end))
    assert covered == sorted((r.partition, o) for r in ranges for o in range(r.start, r.end))


def test_windows_are_registered_in_order() -> None:
    """New ones at the end, pruned ones gone; behind an older one that appears all are registered again."""
    a, b, c, d = (window_key(n * WINDOW_OFFSETS) for n in range(4))
    assert list(requests_for("w", [a, b], [a, b])) == []
    assert list(requests_for("w", [a, b], [b, c])) == [
        DeleteDynamicPartitionsRequest("w", [a]),
        AddDynamicPartitionsRequest("w", [c]),
    ]
    assert list(requests_for("w", [c, d], [a, b, c, d])) == [
        DeleteDynamicPartitionsRequest("w", [c, d]),
        AddDynamicPartitionsRequest("w", [a, b, c, d]),
    ]
