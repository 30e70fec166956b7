"""The sample: what is promised about flights and weather, and that production can be continued."""

from __future__ import annotations

import itertools
import json
from collections import Counter

from cli.stand.sample_data import FLIGHTS, SAMPLE_TOPICS, WEATHER, read_sample
from cli.stand.sample_stream import endless_sample


def test_counts_and_partitions_are_as_announced() -> None:
    """Each topic's sample has the announced number of records, spread over all its partitions."""
    for sample in SAMPLE_TOPICS:
        partitions = Counter(record.partition for record in read_sample(sample))
        assert sum(partitions.values()) == sample.records
        assert set(partitions) == set(range(sample.partitions))


def test_a_record_is_json_with_integers_and_nulls() -> None:
    """Absent values are null, integers stay integers, the hour is an ISO-8601 time in UTC."""
    first = json.loads(next(read_sample(FLIGHTS)).value)
    assert first["dep_time"] == 517
    assert first["time_hour"] == "2013-01-01T10:00:00Z"
    weather = json.loads(next(read_sample(WEATHER)).value)
    assert weather["wind_gust"] is None
    assert b"NaN" not in b"".join(record.value for record in read_sample(WEATHER))


def test_flights_are_keyed_by_tail_number_some_without() -> None:
    """A flight's key is its tail number; a flight whose aircraft is unknown has no key."""
    records = list(itertools.islice(read_sample(FLIGHTS), 5_000))
    assert all((r.key and r.key.decode()) == json.loads(r.value)["tailnum"] for r in records)
    assert any(record.key is None for record in records)
    assert len({r.partition for r in records if r.key == b"N14228"}) == 1


def test_the_stream_continues_where_the_partitions_end() -> None:
    """With some of the sample in Kafka the stream's next records are exactly those that come after."""
    records = list(itertools.islice(read_sample(WEATHER), 200))
    already, coming = records[:120], records[120:]
    ends = Counter(record.partition for record in already)
    assert list(itertools.islice(endless_sample(WEATHER, ends), len(coming))) == coming


def test_the_stream_starts_over_once_the_sample_is_there() -> None:
    """With the whole sample in Kafka the stream begins again at its first record."""
    assert next(endless_sample(WEATHER, {0: 20_000, 1: 10_000})) == next(read_sample(WEATHER))
