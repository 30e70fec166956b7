"""Kafka and the lake as one table: each record once, before its drain and after it."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from cli.commands.query import command
from prove.lab.fresh_oracle import ask, checked, hot_rows
from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import configure, orders
from prove.lab.registry_stand_in import RegistryStandIn
from spark_jobs.acts.rollback import rollback
from spark_jobs.hot.fresh import read_fresh
from spark_jobs.hot.watermark import Watermark
from spark_jobs.protocol.errors import ConfigError, RetryableError, SourceChanged
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.query.lookup import newest_of_key
from tests.support.new_lab import NewLab

if TYPE_CHECKING:
    from pathlib import Path

    from prove.lab.kafka_server import KafkaBroker
    from prove.lab.pipeline_lab import Lab

pytestmark = pytest.mark.kafka

EVERY = "SELECT * FROM orders ORDER BY _kafka_partition, _kafka_offset"
LETTERS = "SELECT * FROM dead_letters ORDER BY _kafka_partition, _kafka_offset"


@pytest.fixture
def new_lab(kafka: KafkaBroker, tmp_path: Path) -> NewLab:
    """Pipelines whose tasks run in the process that drains."""
    return NewLab(kafka, "", tmp_path, is_here=True)


def _records(first: int, count: int, partition: int = 0) -> list[Record]:
    """Orders, and beside each fourth one that cannot be read and a tombstone."""
    records = []
    for number, value in enumerate(orders(first, count), start=first):
        records.append(Record(value, key=f"k{number}".encode(), partition=partition, headers=[("h", b"1")]))
        if number % 4 == 0:
            records += [Record(b"{", partition=partition), Record(None, key=b"gone", partition=partition)]
    return records


def _commit_and_abort(lab: Lab, bootstrap: str) -> None:
    """One transaction of each kind: markers at the end, and records nobody may read."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": lab.pipeline.topic})
    producer.init_transactions(30)
    for first, is_kept in ((800, True), (900, False)):
        producer.begin_transaction()
        for value in orders(first, 3):
            producer.produce(lab.pipeline.topic, value, partition=0)
        producer.flush(30)
        (producer.commit_transaction if is_kept else producer.abort_transaction)(30)


def test_each_record_is_seen_once_whatever_is_drained_meanwhile(new_lab: NewLab) -> None:
    """Not drained, drained, replayed and rolled back; an earlier watermark is the same records again."""
    lab = new_lab(_records(0, 9) + _records(100, 5, partition=1), partitions=2, hot=True)
    lab.drain()
    first = checked(lab)
    assert hot_rows(lab) == 0
    new_lab.produce(lab, _records(20, 6) + _records(200, 3, partition=1))
    _commit_and_abort(lab, new_lab.kafka)
    before = checked(lab)
    assert (before.is_of(first), before.reaches(first.ends), hot_rows(lab)) == (True, True, 12)
    rows = ask(lab, "SELECT count(*) AS n, sum(id)::BIGINT AS s FROM orders")
    lab.drain()
    assert checked(lab) == before
    assert ask(lab, "SELECT count(*) AS n, sum(id)::BIGINT AS s FROM orders") == rows
    lab.replay(OffsetRange(0, 3, 15))
    new_lab.produce(lab, _records(40, 4))
    after = checked(lab)
    assert [checked(lab, at=earlier) for earlier in (first, before, after)] == [first, before, after]
    _back(lab)
    undone = checked(lab)
    assert (undone.ends, undone.rollbacks) == (after.ends, after.rollbacks + 1)
    assert hot_rows(lab) > 4
    with pytest.raises(SourceChanged) as other:
        ask(lab, EVERY, at=after)
    assert other.value.code == "other-epoch"


def _back(lab: Lab) -> None:
    """Take the last drain back."""
    table = lab.table()
    earlier = sorted(table.metadata.snapshots, key=lambda each: each.sequence_number or 0)[1]
    with lab.connections() as connections:
        rollback(lab.pipeline, connections, to_snapshot=earlier.snapshot_id, reason="test", force=True)


def test_what_was_answered_hot_is_what_the_drain_then_writes(new_lab: NewLab) -> None:
    """In every column, of rows and dead letters, but the two that a batch gives; by expressions too."""
    lab = new_lab(
        _records(0, 5),
        hot=True,
        columns={"total": {"type": "decimal(12,2)", "sql": "CAST(price * 2 AS DECIMAL(12,2))"}},
        filter="id % 3 <> 1",
        dead_letters={"columns": {"raw": {"type": "string", "sql": "upper(value)"}}},
    )
    lab.drain()
    new_lab.produce(lab, [*_records(5, 30), Record(b'{"id": "x"}', key=b"\xff"), Record(b"[1]")])
    hot, letters = ask(lab, EVERY), ask(lab, LETTERS)
    conditions = "id IN (8, 9) OR (_kafka_offset > 20 AND customer >= 'c1') OR _kafka_key = 'k11'"
    some = f"SELECT count(*) AS n, max(_kafka_offset) AS o FROM orders WHERE {conditions}"  # noqa: S608
    met = ask(lab, some)
    assert {row["_ingested_at"] is None for row in hot} == {True, False}
    assert {row["batch_id"] is None for row in letters} == {True, False}
    again = Record(b'{"id": 12, "price": 1}', key=b"k12")
    new_lab.produce(lab, [again])
    newest = _newest(lab, "k12")
    assert [row["price"] for row in newest] == [1, 12.5]
    hot.append(newest[0])
    lab.drain()
    assert _without(_newest(lab, "k12")) == _without(newest)
    assert ask(lab, some) == met
    assert _without(ask(lab, EVERY)) == _without(hot)
    assert _without(ask(lab, LETTERS)) == _without(letters)


def _newest(lab: Lab, key: str) -> list[dict[str, Any]]:
    with lab.connections() as connections:
        prefix = read_fresh(lab.pipeline, connections)
        answer = newest_of_key(lab.pipeline, connections, key, prefix=prefix)
        return [row for batch in answer.batches for row in batch.to_pylist()]


def _without(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    given = {"_ingested_at", "first_failed_at", "batch_id"}
    return [{name: value for name, value in row.items() if name not in given} for row in rows]


def test_a_field_without_a_column_hides_no_record(new_lab: NewLab) -> None:
    """The row is there without it, and with it once the drain has made the column."""
    lab = new_lab(_records(0, 3), hot=True)
    lab.drain()
    new_lab.produce(lab, [Record(b'{"id": 7, "new": {"er": 1}}'), *_records(8, 2)])
    assert ask(lab, "SELECT id, price FROM orders WHERE id = 7") == [{"id": 7, "price": None}]
    checked(lab)
    lab.drain()
    assert ask(lab, "SELECT new FROM orders WHERE id = 7") == [{"new": {"er": 1}}]


def test_a_schema_that_no_drain_has_met_is_asked_for(new_lab: NewLab) -> None:
    """Its values are rows at once, without fields that have no column; those of an unknown id are letters."""
    id_, note = {"name": "id", "type": "long"}, {"name": "note", "type": "string"}
    first, second = (json.dumps({"type": "record", "name": "O", "fields": f}) for f in ([id_], [id_, note]))
    with RegistryStandIn() as registry:
        of_first, of_second = (registry.register("orders", text) for text in (first, second))
        value = {"format": "avro", "registry": "main"}
        lab = new_lab([_framed(of_first, first, {"id": 1})], value=value, hot=True)
        configure(lab, "", {"registries": {"main": {"url": registry.url, "timeout": "2s"}}})
        lab.drain()
        new_lab.produce(lab, [_framed(of_second, second, {"id": 2, "note": "gift"}), b"\0\0\0\0\x63x"])
        assert ask(lab, "SELECT id FROM orders ORDER BY id") == [{"id": 1}, {"id": 2}]
        letters = ask(lab, LETTERS)
        assert [row["error"] for row in letters] == ["the registry has no schema 99"]
        lab.drain()
        assert ask(lab, "SELECT id, note FROM orders WHERE id = 2") == [{"id": 2, "note": "gift"}]
        assert _without(ask(lab, LETTERS)) == _without(letters)


def _framed(schema_id: int, schema: str, value: object) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), value)
    return b"\0" + schema_id.to_bytes(4) + out.getvalue()


def test_who_produced_a_record_waits_until_it_is_there(new_lab: NewLab) -> None:
    """By the offset that the broker answered; of one that never comes it is told how far it is."""
    lab = new_lab(_records(1, 3), hot=True)
    lab.drain()
    new_lab.produce(lab, _records(5, 3))
    assert checked(lab, after={0: 5}).ends == {0: 6}
    with pytest.raises(RetryableError) as missing:
        ask(lab, EVERY, after={0: 6}, patience_seconds=0)
    assert missing.value.code == "not-yet"
    assert "1.0/0:6" in missing.value.message
    said = _typed(lab, "--after", "0:5")
    assert said == ("n\n6\n", "watermark: 1.0/0:6\n")
    assert _typed(lab, "--at", "1.0/0:4") == ("n\n4\n", "watermark: 1.0/0:4\n")
    lab.drain()
    assert _typed(lab, "--fresh") == said
    assert _typed(lab, "--at", "1.0/0:4") == ("n\n4\n", "watermark: 1.0/0:4\n")


def _typed(lab: Lab, *options: str) -> tuple[str, str]:
    """What a person reads on both outputs."""
    asked = ["orders", "SELECT count(*) AS n FROM orders", "--csv", *options]
    done = CliRunner(env={"SLUICE_CONFIG": str(lab.path)}).invoke(command, asked, catch_exceptions=False)
    return done.stdout, done.stderr


def test_a_topic_that_was_made_again_is_not_shown(new_lab: NewLab) -> None:
    """Neither before it is asked nor while it is read: its records stand at offsets that others had."""
    lab = new_lab(_records(1, 3), hot=True)
    lab.drain()
    new_lab.produce(lab, _records(5, 3))
    topic = lab.pipeline.topic
    with lab.connections() as connections:
        admin = connections.admin
        real, asked = admin.source_state, []

        def made_again_before_the_second_look(name: str) -> Any:
            asked.append(name)
            if len(asked) == 2:
                new_lab.kafka.delete_topic(topic)
                new_lab.kafka.create_topic(topic)
                new_lab.produce(lab, _records(5, 9))
            return real(name)

        admin.source_state = made_again_before_the_second_look  # type: ignore[method-assign, assignment]
        with pytest.raises(SourceChanged) as changed:
            read_fresh(lab.pipeline, connections)
    assert changed.value.code == "topic-recreated"
    with pytest.raises(SourceChanged) as changed:
        checked(lab)
    assert changed.value.code == "topic-recreated"


def test_what_cannot_be_answered_is_refused_by_name(new_lab: NewLab) -> None:
    """A pipeline that shows nothing early, one without a table, more than memory may take, another epoch."""
    lab = new_lab(_records(1, 3))
    refusals: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (ConfigError, "hot-not-configured", {}),
        (ConfigError, "no-table-yet", {"hot": True}),
    ]
    for kind, code, settings in refusals:
        configure(lab, "pipelines/orders", settings)
        with pytest.raises(kind) as refused:
            ask(lab, EVERY)
        assert refused.value.code == code  # type: ignore[attr-defined]
    lab.drain()
    new_lab.produce(lab, _records(5, 30))
    configure(lab, "pipelines/orders", {"hot": {"memory": "1KB"}})
    with pytest.raises(RetryableError) as refused:
        ask(lab, EVERY)
    assert refused.value.code == "too-far-behind"
    configure(lab, "pipelines/orders", {"hot": True})
    with pytest.raises(SourceChanged) as other:
        ask(lab, EVERY, at=Watermark(2, 0, {0: 1}))
    assert other.value.code == "other-epoch"
    with lab.connections() as connections:
        real = connections.admin.source_state
        without_ids = lambda topic: replace(real(topic), topic_id=None)  # noqa: E731  (an older broker)
        connections.admin.source_state = without_ids  # type: ignore[method-assign]
        with pytest.raises(ConfigError) as older:
            read_fresh(lab.pipeline, connections)
    assert older.value.code == "hot-needs-topic-ids"
