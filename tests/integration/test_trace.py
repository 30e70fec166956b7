"""Every answer to "where is this record and why", each produced for real."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from pyiceberg.expressions import EqualTo

from prove.lab.kafka_server import Record, unique_name
from prove.lab.pipeline_lab import orders
from spark_jobs.acts.act import act
from spark_jobs.audit.trace import trace, trace_key
from spark_jobs.audit.trace_answers import Where
from spark_jobs.books.fold import checkpoint
from spark_jobs.books.history import State, history
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.protocol.work import Work
from spark_jobs.protocol.works.changes import ACCEPT, SKIP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prove.lab.pipeline_lab import Lab
    from spark_jobs.audit.trace import Trace
    from spark_jobs.protocol.progress import Progress
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@contextmanager
def tracing(lab: Lab) -> Iterator[Callable[[int], Trace]]:
    """Traces offsets of partition 0 in the current generation."""
    with lab.connections() as connections:
        yield lambda offset: trace(lab.pipeline, connections, 0, offset)[0]


def fold(lab: Lab) -> None:
    """Move what is finished from the log into the books."""
    with lab.connections() as connections:
        assert checkpoint(lab.pipeline, connections).folded_attempts > 0


def perform(lab: Lab, kind: Work, change: Callable[[Progress], Progress], **more: object) -> None:
    """An operator's act on the lab's table."""
    with lab.connections() as connections:
        act(lab.pipeline.name, lab.table(), connections, kind, reason="told to", change=change, **more)  # type: ignore[arg-type]


def produce_transaction(lab: Lab, broker: str, values: list[bytes]) -> None:
    """Records in one transaction, decided and readable: its marker takes the offset after them."""
    producer = Producer({"bootstrap.servers": broker, "transactional.id": unique_name("tx")})
    producer.init_transactions(60)
    producer.begin_transaction()
    for value in values:
        producer.produce(lab.pipeline.topic, value)
    producer.commit_transaction(60)
    with lab.connections() as connections:
        # The coordinator answers before the partition's leader has written the marker.
        wait_until(lambda: connections.admin.source_state(lab.pipeline.topic).end == {0: 8})


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for what others are about to do."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def row_in_file(lab: Lab, found: Trace) -> int:
    """The offset at the row that a trace names, read from its file without Iceberg."""
    assert found.place is not None
    assert found.place.position is not None
    with lab.table().io.new_input(found.place.file).open() as stream:
        offset: int = pq.read_table(stream)["_kafka_offset"][found.place.position].as_py()
    return offset


def test_where_a_record_is(new_lab: NewLab) -> None:
    """Every kind of offset is told as what it is, from the log and from the books alike."""
    lab = new_lab([*orders(0, 3), b"not json", None], start={0: 2})
    produce_transaction(lab, new_lab.kafka, orders(3, 2))
    lab.drain()
    new_lab.produce(lab, orders(5, 3))
    expected = [
        *[Where.BEFORE_START] * 2,
        *(Where.ROW, Where.DEAD_LETTER, Where.TOMBSTONE, Where.ROW, Where.ROW, Where.GAP),
        *[Where.WAITING] * 3,
        Where.NOT_WRITTEN,
    ]
    with tracing(lab) as find:
        logged = [find(offset) for offset in range(12)]
        fold(lab)
        booked = [find(offset) for offset in range(12)]
    assert [found.where for found in logged] == expected
    assert booked == logged
    assert [row_in_file(lab, logged[offset]) for offset in (2, 5, 6)] == [2, 5, 6]
    assert {found.entry.actor for found in logged if found.entry} == {"test"}
    assert "failed in the phase decode" in logged[3].why
    assert logged[8].why == "the next offset to drain is 8, the partition's lag 3"
    new_lab.kafka.delete_records(lab.pipeline.topic, {0: 8})
    with tracing(lab) as find:
        assert [find(offset).where for offset in (4, 7)] == [Where.EMPTY] * 2


def test_what_another_writer_removed(new_lab: NewLab) -> None:
    """Its commit is named while history shows it, and the books know of the loss when Kafka has forgotten."""
    lab = new_lab(orders(0, 10))
    lab.drain()
    lab.table().delete(EqualTo("_kafka_offset", 4))
    remover = lab.table().metadata.current_snapshot_id
    with tracing(lab) as find:
        found = find(4)
        assert (found.where, found.removed_by and found.removed_by.snapshot_id) == (Where.REMOVED, remover)
        assert [find(offset).where for offset in (3, 5)] == [Where.ROW] * 2
        assert row_in_file(lab, find(5)) == 5
    new_lab.kafka.delete_records(lab.pipeline.topic, {0: 10})
    fold(lab)
    with tracing(lab) as find:
        again = find(4)
    assert (again.where, again.removed_by, again.entry) == (Where.REMOVED, found.removed_by, found.entry)


def test_what_kafka_deleted_before_it_was_drained(new_lab: NewLab) -> None:
    """It is gone, and the trace says where Kafka's log begins."""
    lab = new_lab(orders(0, 10))
    lab.drain()
    new_lab.produce(lab, orders(10, 10))
    new_lab.kafka.delete_records(lab.pipeline.topic, {0: 15})
    with tracing(lab) as find:
        assert [find(offset).where for offset in (9, 10, 14, 15)] == [
            Where.ROW,
            Where.GONE,
            Where.GONE,
            Where.WAITING,
        ]
        assert "from offset 15 on" in find(10).why


def test_what_an_operator_passed_over(new_lab: NewLab) -> None:
    """A skipped record's trace says who did it and why, from the log and from the books."""
    lab = new_lab(orders(0, 10))
    lab.drain()
    new_lab.produce(lab, orders(10, 10))
    ranges = OffsetRanges.between({0: 10}, {0: 15})
    perform(lab, SKIP, lambda p: replace(p, next_offsets={0: 15}), ranges=ranges)
    lab.drain()
    with tracing(lab) as find:
        logged = [find(offset) for offset in (9, 10, 14, 15)]
        fold(lab)
        booked = [find(offset) for offset in (9, 10, 14, 15)]
    assert [found.where for found in logged] == [Where.ROW, Where.SKIPPED, Where.SKIPPED, Where.ROW]
    assert logged[1].why == "test skipped it (skip): told to"
    assert booked == logged


def test_a_record_under_way(new_lab: NewLab) -> None:
    """A batch that was cut short is told with its attempt."""
    lab = new_lab(orders(0, 10))
    lab.kill_at("drain.after-parquet-written")
    with lab.connections() as connections:
        (cut,) = connections.txlog.attempts(str(lab.table().metadata.table_uuid))
        (waiting,) = trace(lab.pipeline, connections, 0, 3)
    assert waiting.where is Where.WAITING
    assert waiting.why.endswith(f"attempt {cut.uuid} is under way or was cut short")


def test_a_held_record(new_lab: NewLab) -> None:
    """A record whose batch failed a gate is told with the attempt and the command that lists it."""
    few = {"expect_column_values_to_be_between": {"column": "id", "max_value": 3}}
    lab = new_lab(orders(0, 10), quality=[{"name": "few", "when": "gate", "expectations": [few]}])
    assert lab.drain().batches == ()
    with lab.connections() as connections:
        (held,) = connections.txlog.attempts(str(lab.table().metadata.table_uuid))
        (found,) = trace(lab.pipeline, connections, 0, 3)
        (line,) = history(lab.pipeline, connections, limit=10)
    assert (found.where, line.state) == (Where.HELD, State.HELD)
    assert held.uuid in found.why
    assert "./sluice held list orders" in found.why


def test_each_generation_is_told(new_lab: NewLab) -> None:
    """After a topic was made again the same coordinates are two records, and both are told."""
    lab = new_lab(orders(0, 10))
    lab.drain()
    fold(lab)
    new_lab.kafka.delete_topic(lab.pipeline.topic)
    new_lab.kafka.create_topic(lab.pipeline.topic, 1)
    new_lab.produce(lab, orders(50, 5))
    with lab.connections() as connections:
        source = connections.admin.source_state(lab.pipeline.topic)
    perform(
        lab,
        ACCEPT,
        lambda p: replace(
            p,
            generation=p.generation + 1,
            next_offsets={0: 0},
            starts={0: 0},
            earlier={**p.earlier, p.generation: p.next_offsets},
            topic_id=source.topic_id,
        ),
    )
    with lab.connections() as connections:
        before = [(t.spot.generation, t.where) for t in trace(lab.pipeline, connections, 0, 3)]
        assert before == [(2, Where.WAITING), (1, Where.ROW)]
    lab.drain()
    with lab.connections() as connections:
        both = trace(lab.pipeline, connections, 0, 3)
        past = trace(lab.pipeline, connections, 0, 8)
    assert [(t.spot.generation, t.where) for t in both] == [(2, Where.ROW), (1, Where.ROW)]
    assert {t.entry.attempt for t in both if t.entry} == {
        t.entry.attempt for t in both if t.entry and t.place and t.entry.attempt in t.place.file
    }
    assert [(t.spot.generation, t.where) for t in past] == [(2, Where.NOT_WRITTEN), (1, Where.ROW)]


@pytest.mark.parametrize("key_format", ["string", "raw"])
def test_every_record_of_a_key(new_lab: NewLab, key_format: str) -> None:
    """Rows and dead letters with the key, the newest first, and no others."""
    values = [(b"a", {"id": 1}), (b"b", {"id": 2}), (b"a", {"id": 3}), (b"a", {"id": "x"}), (None, {"id": 4})]
    records = [Record(json.dumps(value).encode(), key=key) for key, value in values]
    lab = new_lab(records, key={"format": key_format})
    lab.drain()
    with lab.connections() as connections:
        found = trace_key(lab.pipeline, connections, "a", limit=10)
        newest = trace_key(lab.pipeline, connections, "a", limit=1)
        none = trace_key(lab.pipeline, connections, "it's", limit=10)
    assert [(t.spot.offset, t.where) for t in found] == [
        (3, Where.DEAD_LETTER),
        (2, Where.ROW),
        (0, Where.ROW),
    ]
    assert (newest, none) == (found[:1], ())


def test_what_cannot_be_traced_is_named(new_lab: NewLab) -> None:
    """No table yet, and a partition that the topic does not have."""
    lab = new_lab(orders(0, 1))
    with lab.connections() as connections:
        with pytest.raises(ConfigError) as no_table:
            trace(lab.pipeline, connections, 0, 0)
        lab.drain()
        with pytest.raises(ConfigError) as no_partition:
            trace(lab.pipeline, connections, 7, 0)
    assert (no_table.value.code, no_partition.value.code) == ("no-table-yet", "no-such-partition")
