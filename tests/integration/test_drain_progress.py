"""What a commit says of itself and of the source, and which records the next batch begins with."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from prove.lab.kafka_server import Record, unique_name
from prove.lab.pipeline_lab import by_offset, progress
from spark_jobs import __version__
from spark_jobs.acts.act import skip
from spark_jobs.drain.drain import drain
from spark_jobs.protocol.errors import ConfigError, OffsetsUnavailable
from spark_jobs.protocol.offsets import NO_RANGES, OffsetRange, OffsetRanges
from tests.support.new_lab import DEAD_LETTERS, as_json, column_types, summary

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prove.lab.pipeline_lab import Lab
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

AT = "2026-01-01T00:00:00Z"


def _numbers(first: int, count: int, partition: int = 0) -> list[Record]:
    return as_json(*({"id": n} for n in range(first, first + count)), partition=partition)


def _ids(lab: Lab) -> set[int]:
    return {row["id"] for row in by_offset(lab).values()}


def _transaction(producer: Producer, topic: str, values: Iterable[bytes], *, is_committed: bool) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)  # one marker: a partition more would have its own
    producer.flush(10)
    (producer.commit_transaction if is_committed else producer.abort_transaction)(10)


def test_progress_and_summary_tell_the_whole_story(new_lab: NewLab) -> None:
    """Markers and aborted records are gaps, and the balance of every partition adds up to its offsets."""
    lab = new_lab([*_numbers(0, 3), *as_json({"id": "x"}, partition=1)], partitions=2)
    topic = lab.pipeline.topic
    producer = Producer({"bootstrap.servers": new_lab.kafka, "transactional.id": unique_name("tx")})
    producer.init_transactions(30)
    _transaction(producer, topic, [b'{"id": 1}'] * 5, is_committed=True)
    _transaction(producer, topic, [b'{"id": 2}'] * 7, is_committed=False)
    new_lab.produce(lab, [Record(None, partition=0)])
    result = lab.drain()
    (batch,) = result.batches
    said, stands = summary(lab.table().current_snapshot()), progress(lab)
    assert said["sluice.batch-id"] == batch.batch.batch_id
    assert said["sluice.attempt"] == batch.batch.attempt
    assert (said["sluice.actor"], said["sluice.run-id"]) == ("test", "test")
    assert said["sluice.version"] == __version__
    assert said["sluice.valid-through"] == str(batch.valid_through_ms) == str(result.valid_through_ms)
    starts, ends = (json.loads(said[f"sluice.{name}-offsets"]) for name in ("start", "end"))
    balances = json.loads(said["sluice.balance"])
    assert starts == {"0": 0, "1": 0}
    assert sum(ends.values()) == int(said["sluice.records"]) == 3 + 1 + (5 + 1) + (7 + 1) + 1
    assert {p: sum(balance) for p, balance in balances.items()} == ends
    rows, letters, tombstones, gaps = (sum(column) for column in zip(*balances.values(), strict=True))
    assert (rows, letters, tombstones, gaps) == (8, 1, 1, 9)
    assert stands.topic == topic
    assert stands.next_offsets == {int(p): end for p, end in ends.items()} == result.next_offsets
    assert stands.topic_id
    assert stands.cluster_id
    assert stands.anchor == lab.table().metadata.current_snapshot_id == batch.snapshot_id
    assert [commit.attempt for commit in stands.last_commits] == [batch.batch.attempt]
    assert stands.pending_dead_letters is not None
    assert progress(lab, DEAD_LETTERS).has_landed(batch.batch.attempt)
    found = lab.audit()
    assert found.is_clean
    assert (found.records, found.lag) == (10, 0)


def test_a_long_backlog_is_many_commits_of_which_the_last_twenty_are_kept(new_lab: NewLab) -> None:
    """Every batch within its bound; old metadata files go with them."""
    lab = new_lab(_numbers(0, 63), max_batch_records=3)
    seen: list[int] = []
    with lab.connections() as connections:
        result = drain(
            lab.pipeline,
            connections,
            budget_seconds=120,
            on_progress=lambda b: seen.append(b.counts.balance.rows),
        )
    assert seen == [3] * 21
    assert (result.stopped, result.lag_records) == ("caught-up", 0)
    table = lab.table()
    commits = progress(lab).last_commits
    assert [commit.attempt for commit in commits] == [batch.batch.attempt for batch in result.batches[-20:]]
    assert (commits[0].ranges, commits[-1].ranges.ends) == (NO_RANGES, {0: 63})
    assert len(table.metadata.snapshots) == 22
    folder = lab.path.parent / "home" / "lake"
    location = table.location().removeprefix("file://")
    metadata_files = [str(p) for p in folder.rglob("*.metadata.json") if str(p).startswith(location)]
    assert len(metadata_files) <= 21
    assert _ids(lab) == set(range(63))


def test_a_budget_that_is_used_up_ends_after_a_whole_batch(new_lab: NewLab) -> None:
    """At least one batch is done; what is left shows as lag and is the next run's."""
    lab = new_lab(_numbers(0, 30), max_batch_records=20)
    with lab.connections() as connections:
        result = drain(lab.pipeline, connections, budget_seconds=0, on_progress=lambda _batch: None)
    assert (result.stopped, len(result.batches), result.lag_records) == ("budget", 1, 10)
    result = lab.drain()
    assert (result.stopped, len(result.batches), result.lag_records) == ("caught-up", 1, 0)
    snapshot = lab.table().metadata.current_snapshot_id
    result = lab.drain()
    assert (result.stopped, result.batches, result.next_offsets) == ("caught-up", (), {0: 30})
    assert lab.table().metadata.current_snapshot_id == snapshot


def test_an_empty_topic_makes_no_table_yet(new_lab: NewLab) -> None:
    """Drained from its earliest offset, its records decide the columns."""
    lab = new_lab()
    result = lab.drain()
    assert (result.stopped, result.batches, result.next_offsets) == ("caught-up", (), {})
    with lab.connections() as connections:
        assert not connections.open_catalog().namespace_exists("lab")
    assert lab.audit().lag == 0
    new_lab.produce(lab, _numbers(0, 2))
    assert lab.drain().balance.rows == 2


def test_start_latest_begins_with_what_comes_next(new_lab: NewLab) -> None:
    """The table is there at once, with types from the records before it, none of which are rows."""
    lab = new_lab(as_json({"id": 1, "at": AT, "x": 0.5}), start="latest")
    assert lab.drain().batches == ()
    assert column_types(lab) == {"id": "int64", "at": "timestamp[us, tz=UTC]", "x": "double"}
    new_lab.produce(lab, as_json({"id": 2, "at": AT, "x": 1}))
    assert lab.drain().balance.rows == 1
    assert _ids(lab) == {2}
    found = lab.audit()
    assert found.is_clean, found
    assert found.records == 1


def test_start_latest_on_an_empty_topic(new_lab: NewLab) -> None:
    """The start is committed with the empty table: what comes before the next run is not lost."""
    lab = new_lab(start="latest")
    assert lab.drain().batches == ()
    new_lab.produce(lab, _numbers(0, 3))
    assert lab.drain().balance.rows == 3
    assert progress(lab).next_offsets == {0: 3}


def test_start_at_a_time_and_at_offsets(new_lab: NewLab) -> None:
    """The first record at or after the time; the named offset, and the earliest of partitions not named."""
    base = 1_767_225_600_000
    records = [
        Record(json.dumps({"id": n}).encode(), partition=n % 2, timestamp_ms=base + n * 1000)
        for n in range(10)
    ]
    lab = new_lab(records, partitions=2, start="2026-01-01T00:00:06Z")
    lab.drain()
    assert _ids(lab) == {6, 7, 8, 9}
    assert lab.audit().is_clean
    lab = new_lab(records, partitions=2, start={1: 3})
    lab.drain()
    assert _ids(lab) == {0, 2, 4, 6, 8, 7, 9}
    found = lab.audit()
    assert found.is_clean, found
    lab = new_lab(records, partitions=2, start={5: 3})
    with pytest.raises(ConfigError) as caught:
        lab.drain()
    assert caught.value.code == "start-outside-topic"


def test_partitions_that_are_added_later_are_drained_from_their_beginning(new_lab: NewLab) -> None:
    """Also where the pipeline started at the latest offsets."""
    lab = new_lab(_numbers(0, 5), start="latest")
    lab.drain()
    _add_partitions(new_lab, lab.pipeline.topic, 3)
    new_lab.produce(lab, _numbers(100, 4, partition=2))
    assert lab.drain().balance.rows == 4
    assert _ids(lab) == {100, 101, 102, 103}
    assert progress(lab).next_offsets == {0: 5, 1: 0, 2: 4}


def test_records_of_an_added_partition_that_retention_took_are_missed(new_lab: NewLab) -> None:
    """No drain knew of the partition while it held them: that is told, and an operator leaves them out."""
    lab = new_lab(_numbers(0, 5))
    lab.drain()
    _add_partitions(new_lab, lab.pipeline.topic, 2)
    new_lab.produce(lab, _numbers(100, 4, partition=1))
    new_lab.kafka.delete_records(lab.pipeline.topic, {1: 3})
    with pytest.raises(OffsetsUnavailable, match="offsets 0 to 2") as caught:
        lab.drain()
    assert caught.value.code == "retention-passed"
    with lab.connections() as connections:
        skip(lab.pipeline, connections, OffsetRanges.of([OffsetRange(1, 0, 3)]), reason="retention")
    lab.drain()
    assert _ids(lab) == {*range(5), 103}
    found = lab.audit()
    assert found.is_clean, found


def _add_partitions(new_lab: NewLab, topic: str, number: int) -> None:
    admin = AdminClient({"bootstrap.servers": new_lab.kafka})
    admin.create_partitions([NewPartitions(topic, number)])[topic].result(30)
    deadline = time.monotonic() + 10
    while len(admin.list_topics(topic, 5).topics[topic].partitions) < number:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_topic_that_never_pauses_does_not_keep_a_run_busy(new_lab: NewLab) -> None:
    """A run ends where the topic ended when it began, unless what came since fills a whole batch."""
    lab = new_lab(_numbers(0, 12), max_batch_records=10)
    arriving = iter([_numbers(12, 10), _numbers(22, 4), _numbers(26, 4)])
    with lab.connections() as connections:
        result = drain(
            lab.pipeline,
            connections,
            budget_seconds=60,
            on_progress=lambda _batch: new_lab.produce(lab, next(arriving)),
        )
    assert [batch.counts.balance.rows for batch in result.batches] == [10, 10]
    assert (result.stopped, result.lag_records) == ("caught-up", 6)
    assert lab.drain().lag_records == 0
    assert _ids(lab) == set(range(26))
