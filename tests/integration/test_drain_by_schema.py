"""Values with schemas, from Confluent's own serializers to the rows of a table: by a file, by a registry."""

from __future__ import annotations

import io
import json
import logging
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from confluent_kafka.schema_registry import header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from prove.lab.harm_proxy import Harm, HarmProxy
from prove.lab.http_proxy import Response
from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import by_offset, configure, progress
from prove.lab.registry_stand_in import RegistryStandIn
from spark_jobs.monitoring.audit_notes import audit_newest
from spark_jobs.preview.preview import preview
from spark_jobs.protocol.errors import BadRecord, ConfigError, RetryableError, SluiceError
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.registry import http_get
from spark_jobs.replay.diff import diff_replay
from spark_jobs.replay.plan import plan_replay
from tests.support.confluent_serializers import BY_TOPIC, registering
from tests.support.new_lab import DEAD_LETTERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FIRST: list[dict[str, Any]] = [
    {"name": "id", "type": "long"},
    {"name": "total", "type": ["null", "double"], "default": None},
]
SECOND = [
    *FIRST,
    {"name": "note", "type": ["null", "string"], "default": None, "doc": "what the clerk wrote"},
]
ADDRESS = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}
THIRD = [*SECOND[:1], *SECOND[2:], {"name": "address", "type": ADDRESS}]


def order(fields: list[dict[str, Any]]) -> str:
    """Return the schema of an order."""
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": fields})


def bare(schema: str, value: object) -> bytes:
    """Return a value as Avro, without a word of its schema."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), value)
    return out.getvalue()


def framed(schema_id: int, schema: str, value: object) -> bytes:
    """Return a value as Confluent's serializers write it."""
    return b"\0" + schema_id.to_bytes(4) + bare(schema, value)


def values_of(lab: Any) -> dict[tuple[int, int], dict[str, Any]]:
    """Return the rows' own columns by partition and offset."""
    rows = by_offset(lab)
    return {at: {name: row[name] for name in row if not name.startswith("_")} for at, row in rows.items()}


@pytest.fixture
def stand_in() -> Iterator[RegistryStandIn]:
    """A registry of the test's own."""
    with RegistryStandIn() as registry:
        yield registry


def by_registry(new_lab: NewLab, url: str, records: list[Any], **settings: Any) -> Any:
    """Return a pipeline whose values name their schemas."""
    lab = new_lab(records, value={"format": "avro", "registry": "main"}, **settings)
    configure(lab, "", {"registries": {"main": {"url": url, "timeout": "2s"}}})
    return lab


def test_three_versions_of_a_schema_in_one_stream(new_lab: NewLab, registry: str) -> None:
    """Rows equal what was produced, whichever version wrote it; then nobody needs the registry any more."""
    producer = registering(registry)
    orders = [
        (order(FIRST), {"id": 1, "total": 1.5}),
        (order(SECOND), {"id": 2, "total": None, "note": "gift"}),
        (order(FIRST), {"id": 3, "total": 2.5}),
        (order(THIRD), {"id": 4, "note": None, "address": {"city": "Ulm"}}),
    ]
    lab = by_registry(new_lab, registry, [])
    topic = lab.pipeline.topic
    context = SerializationContext(topic, MessageField.VALUE)
    produced = [AvroSerializer(producer, schema, conf=BY_TOPIC)(value, context) for schema, value in orders]
    new_lab.produce(lab, [produced[0], None, *produced[1:]])
    lab.drain()
    nothing = {"total": None, "note": None, "address": None}
    wanted = {(0, at): {**nothing, **value} for at, (_, value) in zip((0, 2, 3, 4), orders, strict=True)}
    assert values_of(lab) == wanted
    assert lab.table().schema().find_field("note").doc == "what the clerk wrote"
    assert len(progress(lab).schemas) == 3
    assert lab.audit().is_clean

    configure(lab, "registries/main", {"url": "http://127.0.0.1:9"})
    new_lab.produce(lab, produced[1:2])
    lab.drain()
    assert values_of(lab) == {**wanted, (0, 5): {**nothing, **orders[1][1]}}
    lab.replay(OffsetRange(0, 0, 6))
    assert values_of(lab) == {**wanted, (0, 5): {**nothing, **orders[1][1]}}
    found = lab.audit()
    assert (found.is_clean, found.rows, found.tombstones) == (True, 5, 1)
    with lab.connections() as connections:
        plan = plan_replay(lab.pipeline, connections, [OffsetRange(0, 0, 6)])
        assert diff_replay(lab.pipeline, connections, plan).rows_same == 5


def test_who_adopts_a_batch_knows_its_schemas(new_lab: NewLab, stand_in: RegistryStandIn) -> None:
    """Also when the registry is gone by then; where what was kept is lost, the same is asked for again."""
    text = order(FIRST)
    lab = by_registry(
        new_lab, stand_in.url, [framed(stand_in.register("a", text), text, {"id": 1, "total": 2.0})]
    )
    lab.kill_at("drain.after-parquet-written")
    configure(lab, "registries/main", {"url": "http://127.0.0.1:9"})
    (adopted,) = lab.drain().recovery.adopted
    assert adopted
    (kept,) = progress(lab).schemas.items()
    assert str(kept[0]) == "1"
    assert lab.audit().is_clean

    def audit_of_the_hour() -> None:
        with lab.connections() as connections:
            audit_newest(lab.pipeline, connections, str(lab.table().metadata.table_uuid))

    audit_of_the_hour()
    shutil.rmtree(lab.path.parent / "home" / "log" / "schemas")
    with pytest.raises(RetryableError, match="registry"):
        lab.audit()
    configure(lab, "registries/main", {"url": stand_in.url})
    assert lab.audit().is_clean
    stand_in.answers["schemas/ids/1"] = Response(200, (), json.dumps({"schema": order(SECOND)}).encode())
    with pytest.raises(ConfigError, match="registry-changed"):
        audit_of_the_hour()
    del stand_in.answers["schemas/ids/1"]
    audit_of_the_hour()
    shutil.rmtree(lab.path.parent / "home" / "log" / "schemas")
    stand_in.answers["schemas/ids/1"] = Response(200, (), json.dumps({"schema": order(SECOND)}).encode())
    with pytest.raises(ConfigError) as changed:
        lab.audit()
    assert changed.value.code == "registry-changed"


def test_what_a_schema_does_not_say_is_a_dead_letter(new_lab: NewLab, stand_in: RegistryStandIn) -> None:
    """Cut values, unknown ids and values without any: each with its phase and reason, beside right rows."""
    text = order(FIRST)
    good = stand_in.register("orders", text)
    value = framed(good, text, {"id": 7, "total": None})
    lab = by_registry(
        new_lab, stand_in.url, [value, value[:-1], value + b"x", b'{"id":1}', b"\0\0\0\0\x63x", b""]
    )
    lab.drain()
    assert values_of(lab) == {(0, 0): {"id": 7, "total": None}}
    letters = {at[1]: (row["phase"], row["error"]) for at, row in by_offset(lab, DEAD_LETTERS).items()}
    assert {at: phase for at, (phase, _) in letters.items()} == {
        1: "decode",
        2: "decode",
        3: "schema",
        4: "schema",
        5: "schema",
    }
    assert letters[4][1] == "the registry has no schema 99"
    assert lab.audit().is_clean


@pytest.mark.parametrize("where", ["prefix", "header"])
def test_messages_of_confluents_serializer(
    new_lab: NewLab, registry: str, stand_in: RegistryStandIn, where: str
) -> None:
    """Two messages of one file, each by its place there, in three versions; new fields are columns.

    Ids in headers are GUIDs, which Apicurio does not have.
    """
    url = registry if where == "prefix" else stand_in.url
    producer = registering(url)
    conf = BY_TOPIC | ({"schema.id.serializer": header_schema_id_serializer} if where == "header" else {})
    lab = new_lab([], value={"format": "protobuf", "registry": "main"})
    configure(lab, "", {"registries": {"main": {"url": url}}})
    package = lab.pipeline.topic.replace("-", "_")
    records = []
    for more in ((), ("note",), ("note", "city")):
        for kind in message_classes(package, more):
            message = kind(id=len(records) + 1, **dict.fromkeys(more, "gift"))
            context = SerializationContext(lab.pipeline.topic, MessageField.VALUE, [])
            value = ProtobufSerializer(kind, producer, conf=conf)(message, context)
            records.append(Record(value, headers=context.headers))
    new_lab.produce(lab, [*records, replace(records[0], value=(records[0].value or b"")[:-1])])
    lab.drain()
    found = {at[1]: (row["id"], row["note"], row["city"]) for at, row in values_of(lab).items()}
    assert found == {
        0: (1, None, None),
        1: (2, None, None),
        2: (3, "gift", None),
        3: (4, "gift", None),
        4: (5, "gift", "gift"),
        5: (6, "gift", "gift"),
    }
    assert [row["phase"] for row in by_offset(lab, DEAD_LETTERS).values()] == ["decode"]
    assert sorted(key.indexes for key in progress(lab).schemas) == [(0,)] * 3 + [(1,)] * 3
    assert lab.audit().is_clean


def test_messages_of_a_file(new_lab: NewLab) -> None:
    """With what it imports; unknown fields are letters, or counted where they may be passed over."""
    value = {"format": "protobuf", "file": "protos/order.proto", "message": "Order", "include": ["protos"]}
    lab = new_lab([b"\x08\x01\x12\x02\x08\x05", b"\x08\x02\x18\x01"], value=value)
    folder = lab.path.parent / "protos"
    (folder / "common").mkdir(parents=True)
    (folder / "common" / "money.proto").write_text('syntax = "proto3"; message Money { int64 units = 1; }')
    (folder / "order.proto").write_text(
        'syntax = "proto3"; import "common/money.proto"; message Order { int32 id = 1; Money total = 2; }'
        " message Other { int32 id = 1; }"
    )
    lab.drain()
    assert values_of(lab) == {(0, 0): {"id": 1, "total": {"units": 5}}}
    assert [row["error"] for row in by_offset(lab, DEAD_LETTERS).values()] == [
        "fields that are not in the schema, by number: 3"
    ]
    configure(lab, f"pipelines/{lab.pipeline.name}/value", {"unknown_fields": "ignore"})
    lab.replay(OffsetRange(0, 0, 2))
    assert values_of(lab)[(0, 1)] == {"id": 2, "total": None}
    assert lab.audit().is_clean


def message_classes(package: str, more: Sequence[str]) -> list[Any]:
    """Return two messages of one file with an id, and more fields."""
    name = f"{package}{'_'.join(more)}.proto"
    file = FileDescriptorProto(name=name, package=package, syntax="proto3")
    for kind in ("First", "Second"):
        message = file.message_type.add(name=kind)
        message.field.add(name="id", number=1, type=3, label=1)
        for index, field in enumerate(more):
            message.field.add(
                name=field, number=2 + index, type=9, label=1, proto3_optional=True, oneof_index=index
            )
            message.oneof_decl.add(name=f"_{field}")
    pool = descriptor_pool.DescriptorPool()
    found = pool.AddSerializedFile(file.SerializeToString())
    return [message_factory.GetMessageClass(each) for each in found.message_types_by_name.values()]


def test_a_registry_that_does_not_answer_well_holds_up_only_what_is_new(
    new_lab: NewLab, stand_in: RegistryStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Away, wrong, moved, emptied: it is named, and nothing committed; then the same offsets are drained."""
    monkeypatch.setattr(http_get, "PAUSES_SECONDS", ())
    texts = order(FIRST), order(SECOND)
    first, second = (stand_in.register("orders", text) for text in texts)
    lab = by_registry(new_lab, stand_in.url, [framed(first, texts[0], {"id": 1, "total": None})])
    lab.drain()
    before = lab.table().metadata.current_snapshot_id
    new_lab.produce(lab, [framed(second, texts[1], {"id": 2, "total": 1.0, "note": "b"})])
    gone = Response(404, (), b'{"error_code": 40403, "message": "Schema not found"}')
    page = Response(404, (("Content-Type", "text/html"),), b"<h1>Not Found</h1>")
    for url, answer, kind, code in (
        ("http://127.0.0.1:9", page, RetryableError, "registry-away"),
        (stand_in.url, Response(503, (), b""), RetryableError, "registry-away"),
        (stand_in.url, Response(200, (), b"<html>Log in</html>"), RetryableError, "registry-away"),
        (stand_in.url, page, ConfigError, "registry-no-api"),
        (
            stand_in.url,
            Response(302, (("Location", "http://elsewhere"),), b""),
            ConfigError,
            "registry-moved",
        ),
        (stand_in.url, Response(403, (), b""), ConfigError, "registry-refused"),
        (stand_in.url, gone, ConfigError, "registry-knows-none"),
    ):
        configure(lab, "registries/main", {"url": url})
        stand_in.answers.update({f"schemas/ids/{each}": answer for each in (first, second)})
        with pytest.raises(SluiceError) as refused:
            lab.drain()
        assert (type(refused.value), refused.value.code) == (kind, code)
        assert lab.table().metadata.current_snapshot_id == before
    stand_in.answers.clear()
    with HarmProxy(stand_in.url) as slow:
        slow.suffer(Harm.SLOW)
        configure(lab, "registries/main", {"url": slow.url})
        lab.drain()
        assert slow.harmed == 1
    assert {at[1]: row["note"] for at, row in values_of(lab).items()} == {0: None, 1: "b"}


def test_a_registry_that_knows_nothing_makes_no_dead_letters(
    new_lab: NewLab, stand_in: RegistryStandIn
) -> None:
    """An emptied or wrong registry stops the pipeline by name instead of emptying the topic into letters."""
    lab = by_registry(new_lab, stand_in.url, [framed(7, order(FIRST), {"id": 1, "total": None})])
    with pytest.raises(ConfigError) as refused:
        lab.drain()
    assert refused.value.code == "registry-knows-none"
    assert lab.drained() == 0


def test_values_of_one_schema_in_a_file(new_lab: NewLab) -> None:
    """Bare values become rows; a topic that is none of it is refused; what the file adds is a column."""
    text = order(FIRST)
    lab = new_lab([b'{"id":1}'] * 3, value={"format": "avro", "file": "schemas/order.avsc"})
    file = lab.path.parent / "schemas" / "order.avsc"
    with pytest.raises(ConfigError, match=r"schemas/order.avsc") as missing:
        lab.drain()
    assert missing.value.code == "schema-unreadable"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(BadRecord, match=r"none of the first 3 values .* can be read as avro: .* JSON obj"):
        lab.drain()
    new_lab.produce(lab, [bare(text, {"id": 5, "total": 0.5})])
    with lab.connections() as connections:
        seen = preview(lab.pipeline, connections, max_records=100)
    assert [column.name for column in seen.columns] == ["id", "total"]
    assert (seen.balance.rows, len(seen.dead_letters)) == (1, 3)
    lab.drain()
    assert values_of(lab) == {(0, 3): {"id": 5, "total": 0.5}}
    file.write_text(order(SECOND))
    new_lab.produce(lab, [bare(order(SECOND), {"id": 6, "total": None, "note": "new"})])
    lab.drain()
    assert values_of(lab)[(0, 4)] == {"id": 6, "total": None, "note": "new"}


@pytest.mark.parametrize(("form", "column"), [("string", "grüße"), ("raw", "grüße".encode())])
def test_values_that_are_one_column(new_lab: NewLab, form: str, column: object) -> None:
    """Text is text or a dead letter; bytes are kept as they are, empty ones too."""
    lab = new_lab(["grüße".encode(), b"\xff", None, b""], value={"format": form})
    lab.drain()
    rows = {at[1]: row["value"] for at, row in by_offset(lab).items()}
    assert rows[0] == column
    assert 2 not in rows
    assert (rows[3], 1 in rows) == (("", False) if form == "string" else (b"", True))
    assert lab.audit().is_clean


def test_a_drain_says_which_schemas_it_learned(
    new_lab: NewLab, stand_in: RegistryStandIn, caplog: pytest.LogCaptureFixture
) -> None:
    """The registry is asked once for each; the next batch, and another run, ask nothing."""
    text = order(FIRST)
    value = framed(stand_in.register("orders", text), text, {"id": 1, "total": None})
    lab = by_registry(new_lab, stand_in.url, [value] * 2)
    with caplog.at_level(logging.INFO, "spark_jobs"):
        lab.drain()
    assert "learned schema 1 of the registry main" in caplog.text
    asked = len(stand_in.asked)
    new_lab.produce(lab, [value])
    lab.drain()
    assert len(stand_in.asked) == asked


def test_keys_by_their_schemas(new_lab: NewLab, registry: str) -> None:
    """Each beside its bytes, in two versions and as none; a key that cannot be read is a dead letter."""
    producer = registering(registry)
    by_key = {"format": "avro", "registry": "main", "as": "order_key"}
    lab = new_lab([], value={"format": "string"}, key=by_key)
    configure(lab, "", {"registries": {"main": {"url": registry}}})
    context = SerializationContext(lab.pipeline.topic, MessageField.KEY)
    number, shop = {"name": "number", "type": "long"}, {"name": "shop", "type": ["null", "string"]}
    keys = [([number], {"number": 7}), ([number, shop], {"number": 8, "shop": "Ulm"})]
    written = [AvroSerializer(producer, order(fields), conf=BY_TOPIC)(key, context) for fields, key in keys]
    records = [
        Record(b"a", key=written[0]),
        Record(b"b"),
        Record(None, key=written[0]),
        Record(b"c", key=b"x"),
    ]
    new_lab.produce(lab, records)
    lab.drain()
    new_lab.produce(lab, [Record(b"d", key=key) for key in written])
    lab.drain()
    rows = by_offset(lab)
    assert {at: (row["value"], row["order_key"]) for (_, at), row in rows.items()} == {
        0: ("a", {"number": 7, "shop": None}),
        1: ("b", None),
        4: ("d", {"number": 7, "shop": None}),
        5: ("d", {"number": 8, "shop": "Ulm"}),
    }
    assert rows[0, 5]["_kafka_key"] == written[1]
    (letter,) = lab.table(DEAD_LETTERS).scan().to_arrow().to_pylist()
    assert (letter["phase"], letter["field"]) == ("schema", "_kafka_key")
    assert [str(key)[:4] for key in progress(lab).schemas] == ["key/", "key/"]
    lab.replay(OffsetRange(0, 0, 6))
    assert by_offset(lab).keys() == rows.keys()
    assert lab.audit().is_clean


def test_renamed_widened_and_incompatible_fields(new_lab: NewLab, stand_in: RegistryStandIn) -> None:
    """Each goes on in its column, or in one of its own; the same for who is killed, replays and compacts."""
    fields: list[list[dict[str, Any]]] = [
        [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}, {"name": "code", "type": "int"}],
        [
            {"name": "id", "type": "long"},
            {"name": "title", "aliases": ["name"], "type": "string"},
            {"name": "code", "type": "string"},
        ],
    ]
    schemas = [order(each) for each in fields]
    ids = [stand_in.register(f"s{number}", schema) for number, schema in enumerate(schemas)]
    first = framed(ids[0], schemas[0], {"id": 1, "name": "a", "code": 7})
    second = framed(ids[1], schemas[1], {"id": 1 << 40, "title": "b", "code": "x"})
    lab = by_registry(new_lab, stand_in.url, [first])
    lab.drain()
    assert progress(lab).columns.keys() == {"id", "name", "code"}
    new_lab.produce(lab, [second, first])
    lab.kill_at("drain.after-columns")
    lab.drain()
    old, new = {"name": "a", "code": 7, "code_2": None}, {"name": "b", "code": None, "code_2": "x"}
    wanted = {(0, 0): {"id": 1, **old}, (0, 1): {"id": 1 << 40, **new}, (0, 2): {"id": 1, **old}}
    assert values_of(lab) == wanted
    schema = lab.table().schema()
    assert schema.find_field("name").doc == "title"
    assert {kind for kinds in progress(lab).columns.values() for kind in kinds} == {"int", "long", "string"}
    with lab.connections() as connections:
        plan = plan_replay(lab.pipeline, connections, [OffsetRange(0, 0, 3)])
        found = diff_replay(lab.pipeline, connections, plan)
        assert (found.rows_same, found.columns_added) == (3, [])
        seen = preview(lab.pipeline, connections, max_records=10)
        assert seen.added == ()
    lab.replay(OffsetRange(0, 0, 2))
    assert values_of(lab) == wanted
    assert lab.audit().is_clean
    assert lab.table().metadata.properties["sluice.format-version"] == "2"
