"""Values and keys with JSON Schemas, from Confluent's own serializer to the rows of a table."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference
from confluent_kafka.serialization import MessageField, SerializationContext

from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import by_offset, configure, progress
from spark_jobs.protocol.offsets import OffsetRange
from tests.support.confluent_serializers import BY_TOPIC, registering
from tests.support.new_lab import DEAD_LETTERS

if TYPE_CHECKING:
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ORDER = {
    "id": {"type": "integer"},
    "at": {"type": "string", "format": "date-time"},
    "total": {"oneOf": [{"type": "null"}, {"type": "number"}]},
}
NOTED = {
    **ORDER,
    "total": {"type": "string"},
    "note": {"type": "string", "description": "what the clerk wrote"},
}
SENT = {
    **NOTED,
    "to": {"$ref": "address.json"},
    "by": {"type": "object", "additionalProperties": {"type": "integer"}},
    "extra": {"type": ["object", "string"]},
}
ADDRESS = {"type": "object", "properties": {"city": {"type": "string"}}, "additionalProperties": False}


def schema(properties: dict[str, Any], *references: SchemaReference) -> Schema:
    """Return the schema of an object."""
    text = {"title": "Order", "type": "object", "properties": properties}
    return Schema(json.dumps(text), "JSON", references=list(references))


def test_three_versions_and_keys_of_json_schemas(new_lab: NewLab, registry: str) -> None:
    """Rows are what was produced, by whichever version; what a schema does not say is a dead letter."""
    from confluent_kafka.schema_registry.json_schema import JSONSerializer  # a second of imports

    producer = registering(registry)
    place = {"format": "json_schema", "registry": "main"}
    lab = new_lab([], value=place, key={**place, "as": "order_key"})
    configure(lab, "", {"registries": {"main": {"url": registry}}})
    topic = lab.pipeline.topic
    producer.register_schema(f"{topic}-address", Schema(json.dumps(ADDRESS), "JSON"))
    of_value, of_key = (
        SerializationContext(topic, field) for field in (MessageField.VALUE, MessageField.KEY)
    )

    def written(context: SerializationContext, of: Schema, value: Any) -> bytes:
        made = JSONSerializer(of, producer, conf=BY_TOPIC)(value, context)
        assert isinstance(made, bytes)
        return made

    key = written(of_key, schema({"number": {"type": "integer"}}), {"number": 7})
    first = written(of_value, schema(ORDER), {"id": 1, "at": "2024-02-29T12:00:00Z", "total": 1.5})
    new_lab.produce(lab, [Record(first, key=key), None, Record(first[:5] + b'{"id":1,"ID":2}', key=key)])
    lab.drain()
    noted = written(of_value, schema(NOTED), {"id": 2, "total": "3", "note": "gift"})
    told = {"id": 3, "to": {"city": "Ulm"}, "by": {"a": 1}, "extra": {"a": [1.5, None]}}
    sent = written(of_value, schema(SENT, SchemaReference("address.json", f"{topic}-address", 1)), told)
    new_lab.produce(lab, [Record(first), Record(noted), Record(sent, key=key), Record(first, key=key[:-1])])
    lab.drain()

    rows = {
        at: {name: row[name] for name in row if name[0] != "_"} for (_, at), row in by_offset(lab).items()
    }
    none = dict.fromkeys(("id", "at", "total", "order_key", "total_2", "note", "to", "by", "extra"))
    old = {**none, "id": 1, "at": datetime(2024, 2, 29, 12, tzinfo=UTC), "total": 1.5}
    new = {**told, "by": [("a", 1)], "extra": '{"a":[1.5,null]}', "order_key": {"number": 7}}
    assert rows == {
        0: {**old, "order_key": {"number": 7}},
        3: old,
        4: {**none, "id": 2, "total_2": "3", "note": "gift"},
        5: {**none, **new},
    }
    letters = {at[1]: (row["phase"], row["field"]) for at, row in by_offset(lab, DEAD_LETTERS).items()}
    assert letters == {2: ("decode", "ID"), 6: ("key", "_kafka_key")}
    assert lab.table().schema().find_field("note").doc == "what the clerk wrote"
    assert len(progress(lab).schemas) == 4
    lab.replay(OffsetRange(0, 0, 7))
    assert by_offset(lab).keys() == {(0, at) for at in rows}
    assert lab.audit().is_clean
