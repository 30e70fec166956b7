"""A topic, a log or a table that is not what the last run left: a named error, and nothing lost silently."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.types import LongType, NestedField

from prove.lab.pipeline_lab import PIPELINE, TABLE, configure, orders
from spark_jobs.acts.accept_source import compare_source
from spark_jobs.protocol.errors import ConfigError, OffsetsUnavailable, SluiceError, SourceChanged
from tests.support.lake import Once

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from prove.lab.pipeline_lab import Lab
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.spark]

MIB = 1024 * 1024


def _refused(lab: Lab, kind: type[SluiceError], code: str) -> None:
    """The next drain ends with this error, in one line with a hint, and commits nothing."""
    before = lab.table().metadata.current_snapshot_id
    with pytest.raises(kind) as raised:
        lab.drain()
    assert raised.value.code == code
    assert "\n" not in str(raised.value)
    assert raised.value.hint
    assert lab.table().metadata.current_snapshot_id == before


def test_a_range_kafka_no_longer_has_stops_the_drain(new_lab: NewLab) -> None:
    """Retention that went past the next offset is said, never skipped."""
    lab = new_lab(orders(0, 20))
    lab.drain()
    new_lab.produce(lab, orders(20, 20))
    new_lab.kafka.delete_records(lab.pipeline.topic, {0: 30})
    _refused(lab, OffsetsUnavailable, "retention-passed")


def test_a_topic_created_again_between_runs_stops_the_drain(new_lab: NewLab) -> None:
    """Also when it has more records by then than the table has drained."""
    lab = new_lab(orders(0, 20))
    lab.drain()
    topic = lab.pipeline.topic
    new_lab.kafka.delete_topic(topic)
    new_lab.kafka.create_topic(topic)
    new_lab.kafka.produce(topic, orders(100, 40))
    _refused(lab, SourceChanged, "topic-recreated")


def test_another_topic_under_the_same_pipeline_is_told_as_that(new_lab: NewLab) -> None:
    """Nothing offers to take it over: its records would be another topic's, with the same coordinates."""
    lab = new_lab(orders(0, 20))
    lab.drain()
    other = new_lab.kafka.new_topic()
    new_lab.kafka.produce(other, orders(100, 40))
    configure(lab, f"pipelines/{PIPELINE}", {"topic": other})
    _refused(lab, SourceChanged, "another-topic")
    with lab.connections() as connections, pytest.raises(SourceChanged) as raised:
        compare_source(lab.pipeline, connections)
    assert raised.value.code == "another-topic"


def test_a_topic_created_again_during_the_read_is_not_committed(new_lab: NewLab) -> None:
    """The source is asked for its identity after the last task has read, too."""
    lab = new_lab(orders(0, 20))
    lab.drain()
    new_lab.produce(lab, orders(20, 20))
    topic = lab.pipeline.topic

    def create_again() -> None:
        new_lab.kafka.delete_topic(topic)
        new_lab.kafka.create_topic(topic)
        new_lab.kafka.produce(topic, orders(100, 60))

    with pytest.raises(SourceChanged) as raised:
        lab.drain(fail_points=Once("drain.after-tasks", create_again))
    assert raised.value.code == "topic-recreated"
    assert lab.rows().num_rows == 20


def test_another_engine_that_changes_the_table_is_noticed(new_lab: NewLab) -> None:
    """Rows deleted, or main rolled back, between runs: the offsets would promise rows that are gone."""
    lab = new_lab(orders(0, 20))
    lab.drain()
    new_lab.produce(lab, orders(20, 20))
    lab.drain()
    new_lab.produce(lab, orders(40, 20))
    with lab.connections() as connections:
        table = connections.open_catalog().load_table(TABLE)
        *_, first, _second = table.metadata.snapshots
        back = SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=first.snapshot_id)
        table.catalog.commit_table(table, (), (back,))
    _refused(lab, SourceChanged, "table-rolled-back")
    with lab.connections() as connections:
        connections.open_catalog().load_table(TABLE).delete("id = 3")
    with pytest.raises(SourceChanged):
        lab.drain()


def test_a_foreign_table_of_the_same_name_is_left_alone(new_lab: NewLab) -> None:
    """A table that Sluice did not make is refused; so is a declared type that differs."""
    lab = new_lab(orders(0, 20))
    with lab.connections() as connections:
        catalog = connections.open_catalog()
        catalog.create_namespace_if_not_exists("lab")
        catalog.create_table(TABLE, Schema(NestedField(1, "id", LongType(), required=False)))
        with pytest.raises(SluiceError) as raised:
            lab.drain()
        assert isinstance(raised.value, (ConfigError, SourceChanged))
        assert "\n" not in str(raised.value)
        catalog.drop_table(TABLE)
    lab.drain()
    configure(lab, f"pipelines/{PIPELINE}", {"columns": {"id": "string"}})
    _refused(lab, ConfigError, "column-clash")


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


def _fill_with_garbage(path: Path) -> None:
    path.write_bytes(b"\x00\xff garbage")


DAMAGE = (_truncate, _fill_with_garbage, lambda path: path.unlink(), lambda path: shutil.rmtree(path.parent))


def test_damaged_log_objects_cost_a_second_reading_at_most(new_lab: NewLab) -> None:
    """After a crash ParquetWritten is truncated, garbage or missing, or the attempt has no log at all."""
    lab = new_lab(orders(0, 20))
    lab.drain()
    for damage in DAMAGE:
        _damage_after_a_crash(new_lab, lab, damage)
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.lag) == (20 * (1 + len(DAMAGE)), 0)


def _damage_after_a_crash(new_lab: NewLab, lab: Lab, damage: Callable[[Path], object]) -> None:
    new_lab.produce(lab, orders(0, 20))
    lab.kill_at("drain.after-parquet-written")
    log = lab.path.parent / "home" / "log"
    damage(max(log.rglob("4-ParquetWritten.json"), key=lambda path: path.stat().st_mtime_ns))
    result = lab.drain()
    assert len(result.batches) == 1
    assert result.recovery.adopted == ()


def test_a_message_of_five_megabytes_is_drained(new_lab: NewLab) -> None:
    """On a topic that allows it; the client's own limits do not stand in the way."""
    lab = new_lab()
    topic = new_lab.kafka.new_topic(max_message_bytes=8 * MIB)
    configure(lab, f"pipelines/{PIPELINE}", {"topic": topic})
    large = b'{"id": 1, "text": "%s"}' % (b"x" * 5 * MIB)
    new_lab.kafka.produce(topic, [*orders(0, 3), large], **{"message.max.bytes": 8 * MIB})
    assert lab.drain().balance.rows == 4
    assert lab.audit().is_clean
    assert max(len(text or "") for text in lab.rows()["text"].to_pylist()) == 5 * MIB
