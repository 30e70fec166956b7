"""`layout: archive`: every record is a row with its bytes, whatever it is, after replays too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import by_offset, configure, progress
from spark_jobs.preview.preview import preview
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.replay.diff import diff_replay
from spark_jobs.replay.plan import plan_replay
from tests.integration.test_drain_by_schema import order
from tests.support.confluent_serializers import BY_TOPIC, registering
from tests.support.new_lab import DEAD_LETTERS

if TYPE_CHECKING:
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def as_produced(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return a row's record: key, value, headers and timestamp."""
    key, value = (row[part] and row[part]["__raw__"] for part in ("key", "value"))
    headers = [(each["key"], each["value"]) for each in row["headers"] or []]
    return key, value, headers, row["kafka"]["event_timestamp_ms"]


def test_every_record_is_a_row_as_it_was_produced(new_lab: NewLab) -> None:
    """Empty, null and broken ones, and those that bring a field; by partition, in order, for every reader."""
    doubled = [("a", b"1"), ("a", b"2"), ("none", None)]
    records = [
        Record(b'{"id": 1}', key=b"k", headers=doubled, timestamp_ms=1_700_000_000_123),
        Record(None, key=b"\xff", timestamp_ms=1_700_000_000_124),
        Record(b"", key=b"", timestamp_ms=1_700_000_000_125),
        Record(b"\x00no json", timestamp_ms=1_700_000_000_126),
        Record(b'{"id": 2, "__raw__": "mine"}', timestamp_ms=1),
        Record(b'{"id": "no number"}', timestamp_ms=2),
    ]
    lab = new_lab(records[:4], layout="archive")
    lab.drain()
    new_lab.produce(lab, [*records[4:], Record(b'{"id": 3, "note": "new"}', timestamp_ms=3)])
    (drained,) = lab.drain().batches
    rows = by_offset(lab)
    wanted = [(r.key, r.value, [*(r.headers or [])], r.timestamp_ms) for r in records]
    assert [as_produced(rows[0, offset]) for offset in range(6)] == wanted
    ids = [row["value"] and row["value"]["id"] for row in (rows[0, offset] for offset in range(7))]
    assert ids == [1, None, None, None, 2, None, 3]
    assert rows[0, 6]["value"]["note"] == "new"
    assert {row["kafka"]["timestamp_type"] for row in rows.values()} == {"create"}
    assert drained.ignored == {"value": 1, "__raw__": 1}
    assert not by_offset(lab, DEAD_LETTERS)
    (spec,) = lab.table().spec().fields
    assert spec.name == "_kafka_partition"
    with lab.connections() as connections:
        plan = plan_replay(lab.pipeline, connections, [OffsetRange(0, 0, 7)])
        assert diff_replay(lab.pipeline, connections, plan).rows_same == 7
        assert preview(lab.pipeline, connections, max_records=10).notes == ()
    lab.replay(OffsetRange(0, 0, 4))
    rows = by_offset(lab)
    assert [as_produced(rows[0, offset]) for offset in range(6)] == wanted
    found = lab.audit()
    assert (found.is_clean, found.rows, found.tombstones) == (True, 7, 0)
    assert lab.table().metadata.properties["sluice.format-version"] == "2"


def test_keys_and_values_by_their_schemas_stand_beside_their_bytes(new_lab: NewLab, registry: str) -> None:
    """In two versions, one of which brings a field; each value says which schema it names."""
    producer = registering(registry)
    by_schema = {"format": "avro", "registry": "main"}
    lab = new_lab([], layout="archive", value=by_schema, key=by_schema)
    configure(lab, "", {"registries": {"main": {"url": registry}}})
    of_value, of_key = (
        SerializationContext(lab.pipeline.topic, field) for field in (MessageField.VALUE, MessageField.KEY)
    )
    number, note = {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}
    values = [
        AvroSerializer(producer, order(fields), conf=BY_TOPIC)({"id": 1, "note": "x"}, of_value)
        for fields in ([number], [number, note])
    ]
    key = AvroSerializer(producer, json.dumps("string"), conf=BY_TOPIC)("k", of_key)
    new_lab.produce(lab, [Record(values[0], key=key), Record(None, key=key), Record(values[1]), Record(b"x")])
    lab.drain()
    rows = [row for _, row in sorted(by_offset(lab).items())]
    said = [row["value"] and (row["value"]["id"], row["value"]["note"]) for row in rows]
    assert said == [(1, None), None, (1, "x"), (None, None)]
    assert [row["key"] and row["key"]["value"] for row in rows] == ["k", "k", None, None]
    named = [row["value"] and row["value"]["__schema_id__"] for row in rows]
    assert {str(each) for each in progress(lab).schemas} == {named[0], named[2], named_of(key)}
    assert lab.audit().is_clean


def named_of(key: bytes) -> str:
    """Return how the table calls the schema that a key names."""
    return f"key/{int.from_bytes(key[1:5])}"
