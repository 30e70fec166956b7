"""What the first records of a topic look like: JSON, or what a registry says of the schemas they name."""

from __future__ import annotations

import io
import json
import struct
from typing import TYPE_CHECKING, Any
from uuid import UUID

import fastavro
import pytest

from cli.commands.config_template import render_config
from prove.lab.connect_avro import AvroConverter
from prove.lab.debezium_events import Column, Source
from prove.lab.registry_stand_in import RegistryStandIn
from spark_jobs.config.registry_settings import RegistrySettings
from spark_jobs.config.value_format import ValueFormat
from spark_jobs.connections.connect import open_registry
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.preview.prospects import Prospect, prospect
from spark_jobs.registry import http_get
from spark_jobs.storage.create_only import CreateOnlyStore
from tests.support.change_rows import chunk_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from spark_jobs.registry.schema_store import SchemaStore

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "key", "type": "string"}],
}
NEWER = ORDER | {"fields": [*ORDER["fields"], {"name": "note", "type": ["null", "string"]}]}
CLICK = 'syntax = "proto3"; message Page { int32 id = 1; } message Click { string page = 1; }'
ROW = {"id": 7, "key": "k", "note": None}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once."""
    monkeypatch.setattr(http_get, "PAUSES_SECONDS", (0.0, 0.0))


@pytest.fixture
def stand_in() -> Iterator[RegistryStandIn]:
    """A registry that is empty."""
    with RegistryStandIn() as registry:
        yield registry


@pytest.fixture
def main(stand_in: RegistryStandIn, tmp_path: Path) -> SchemaStore:
    """The same as it is asked."""
    settings = {"main": RegistrySettings(url=stand_in.url)}
    return open_registry(settings, CreateOnlyStore(str(tmp_path), {}), "main")


def avro(schema: dict[str, Any]) -> bytes:
    """Return a value of the schema, without a word of it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), ROW)
    return out.getvalue()


def framed(schema_id: int, bare: bytes) -> bytes:
    """Return a value with its schema's id before it."""
    return b"\0" + schema_id.to_bytes(4) + bare


def looked_at(
    registry: SchemaStore | None,
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] = (),
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> Prospect:
    """Return what records of these values look like, all with the same headers."""
    count = len(values)
    chunk = Chunk(0, [*range(count)], [0] * count, [*keys] or [None] * count, [*values], [[*headers]] * count)
    return prospect([chunk], "orders", registry)


def test_each_side_has_the_format_of_its_schemas(stand_in: RegistryStandIn, main: SchemaStore) -> None:
    """Values in Avro of two versions make the columns of both; keys are a Protobuf file's second message."""
    old, new = (stand_in.register("orders", json.dumps(schema)) for schema in (ORDER, NEWER))
    click = stand_in.register("keys", CLICK, "PROTOBUF")
    values = [framed(old, avro(ORDER)), None, framed(new, avro(NEWER))]
    seen = looked_at(main, values, [framed(click, b"\x02\x02\x0a\x01p"), None, framed(click, b"\x02\x02")])
    assert (seen.value, seen.key, seen.unreadable) == (ValueFormat.AVRO, ValueFormat.PROTOBUF, "")
    assert seen.columns == ("id", "key", "note")


@pytest.mark.parametrize("language", ["AVRO", "PROTOBUF"])
def test_headers_are_believed(stand_in: RegistryStandIn, main: SchemaStore, language: str) -> None:
    """A GUID, in Protobuf with indexes behind it, names the schema of bare bytes."""
    text, bare, indexes = (
        (json.dumps(ORDER), avro(ORDER), b"") if language == "AVRO" else (CLICK, b"\x0a\x01p", b"\x02\x02")
    )
    guid = stand_in.guid(stand_in.register("orders", text, language))
    header = ("__value_schema_id", b"\1" + UUID(guid).bytes + indexes)
    seen = looked_at(main, [bare], headers=[header])
    assert (seen.value, seen.unreadable) == (ValueFormat[language], "")
    assert (
        f"they name schema {guid} of a registry"
        in looked_at(None, [b"\xff\xfe"], headers=[header]).unreadable
    )


def test_json_schema_is_read_or_left_out_by_name(stand_in: RegistryStandIn, main: SchemaStore) -> None:
    """Values that are JSON behind a frame are never taken for a format that they are not."""
    schema_id = stand_in.register(
        "orders", '{"type": "object", "properties": {"id": {"type": "integer"}}}', "JSON"
    )
    seen = looked_at(main, [framed(schema_id, b'{"id": 7}')])
    assert seen.value == ValueFormat.__members__.get("JSON_SCHEMA")
    assert ("they are JSON_SCHEMA" in seen.unreadable) == (seen.value is None)


def test_a_topic_of_change_events_is_told_from_one_of_objects() -> None:
    """All of its values are events; the configuration then says so."""
    source = Source({"id": Column("int32"), "name": Column("string")})
    event = source.event("c", {"id": 1, "name": "a"})
    seen = looked_at(None, [event, None, source.event("t", None)])
    assert (seen.are_changes, seen.unreadable, seen.columns[:3]) == (
        True,
        "",
        ("id", "name", "_cdc_sequence"),
    )
    text = render_config(bootstrap_servers="a:9092", topics=("orders",), seen={"orders": seen})
    assert "layout: changes" in text
    for values in ([event, b'{"id": 1}'], [b'{"id": 1}'], [None]):
        assert not looked_at(None, values).are_changes


def test_change_events_in_avro_are_told_from_rows(stand_in: RegistryStandIn, main: SchemaStore) -> None:
    """By their schemas; the configuration then says format and layout."""
    source = Source({"id": Column("int32", optional=False), "name": Column("string")})
    converter = AvroConverter(stand_in.register)
    event = source.event("c", {"id": 1, "name": "a"})
    key, value = converter.convert("t", "key", source.key(1)), converter.convert("t", "value", event)
    found = prospect([chunk_of([(key, value)])], "t", main)
    assert (found.are_changes, found.value, found.key, found.unreadable) == (True, "avro", "avro", "")
    assert found.columns[:2] == ("id", "name")
    text = render_config(bootstrap_servers="a:9092", topics=("t",), seen={"t": found})
    for line in (
        "layout: changes",
        "value: {format: avro, registry: main}",
        "key: {format: avro, registry: main}",
    ):
        assert line in text
    row = converter.convert("t", "value", source.row({"id": 1, "name": "a"}))
    assert not prospect([chunk_of([(key, row)])], "t", main).are_changes


def test_without_a_registry_the_option_is_named() -> None:
    """The id, that the format cannot be told, and both ways to tell it."""
    told = looked_at(None, [framed(7, b"\2a")] * 5).unreadable
    assert told.startswith("all 5 inspected values are framed by a schema registry")
    for words in (
        "schema 7",
        "Only the registry knows",
        "init --registry URL",
        "value: {format: avro, registry",
    ):
        assert words in told


def test_what_cannot_be_told_is_left_out_with_the_reason(
    stand_in: RegistryStandIn, main: SchemaStore, tmp_path: Path
) -> None:
    """Unknown ids, two languages in one topic, other bytes than the schema's, a registry that is away."""
    order = stand_in.register("orders", json.dumps(ORDER))
    click = stand_in.register("clicks", CLICK, "PROTOBUF")
    good = framed(order, avro(ORDER))
    for values, why in (
        ([framed(99, b"x")], "the registry has no schema 99"),
        ([good, framed(click, b"\x02\x02")], "they are AVRO and PROTOBUF"),
        ([framed(order, b"\xff")] * 2 + [good], "2 of 3 cannot be read as avro"),
    ):
        seen = looked_at(main, values)
        assert why in seen.unreadable
        assert seen.value is None
    settings = {"main": RegistrySettings(url="http://127.0.0.1:9")}
    away = open_registry(settings, CreateOnlyStore(str(tmp_path / "other"), {}), "main")
    assert "does not answer" in looked_at(away, [good]).unreadable


def test_numbers_as_keys_are_no_frames(stand_in: RegistryStandIn, main: SchemaStore) -> None:
    """Longs begin with zeros and, where they are large, with a schema's id, by which they cannot be read."""
    stand_in.register("orders", json.dumps(ORDER))
    keys = [struct.pack(">q", (1 << 24) + 250 + number) for number in range(3)]
    seen = looked_at(main, [b'{"id": 1}'] * 3, keys)
    assert (seen.value, seen.key, seen.columns) == (None, None, ("id",))
