"""Events of Debezium in Avro: the rows that the same events are in JSON with schemas."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from cli.stand.recorded_changes import recording
from prove.lab.connect_avro import AvroConverter
from prove.lab.connect_avro import avro_schema as avro_schema_of
from prove.lab.debezium_events import DATA, TIME, Column, Source
from spark_jobs.config.columns import GROWTH
from spark_jobs.config.value_format import KeySettings, ValueFormat, ValueSettings
from spark_jobs.formats.avro.schema import avro_schema
from spark_jobs.formats.avro.types import parse
from spark_jobs.formats.connect.avro_documents import connect_schema
from spark_jobs.formats.connect.types import Kind, Leaf, Type, row_type
from spark_jobs.formats.tree import Map
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.offsets import SchemaId, SchemaKey
from spark_jobs.protocol.work import Layout, layout_named
from spark_jobs.records.decoder import Decoded, Phase
from spark_jobs.schema.column_source import KnownSchemas
from spark_jobs.schema.schema_views import OneColumn
from spark_jobs.schema.writer_schema import Language, SchemaText, WriterSchema
from tests.support.change_rows import Table, chunk_of
from tests.unit.test_changes import ROW, TYPED

TOPIC = "shop.public.customers"
IN_AVRO: Any = {
    "value": ValueSettings(format=ValueFormat.AVRO, registry="main"),
    "key": KeySettings(format=ValueFormat.AVRO, registry="main"),
}

ENTRY = {
    "type": "record",
    "name": "Entry",
    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "int"}],
    "connect.internal.type": "MapEntry",
}

CHANGES = layout_named("changes")


@dataclass
class Registry:
    """Schemas in the order in which they were registered."""

    texts: list[tuple[str, str]] = field(default_factory=list)

    def register(self, subject: str, text: str) -> int:
        """Return the schema's id."""
        self.texts.append((subject, text))
        return len(self.texts)

    def known(self) -> KnownSchemas:
        """Return all of them, as tasks get them."""
        values: dict[SchemaKey | None, WriterSchema | None] = {}
        keys: dict[SchemaKey | None, WriterSchema | None] = {}
        for number, (subject, text) in enumerate(self.texts, start=1):
            made, of_key = avro_schema(SchemaText(Language.AVRO, text)), subject.endswith("-key")
            key = SchemaKey(SchemaId(number), (), of_key)
            (keys if of_key else values)[key] = OneColumn(made, "key") if of_key else made
        return KnownSchemas(values, keys=KnownSchemas(keys, of_key=True))


class Both:
    """A table of JSON's events, and one of the same in Avro."""

    def __init__(self, layout: Layout = CHANGES) -> None:
        self.json, self.avro = Table(layout=layout), Table(layout=layout, **IN_AVRO)
        self.registry = Registry()
        self.converter = AvroConverter(self.registry.register)

    def drain(self, records: list[tuple[bytes | None, bytes | None]], headers: Any = None) -> Decoded:
        """Return what is made of them in Avro, which is what is made of them in JSON."""
        written = [
            (self.converter.convert(TOPIC, "key", key), self.converter.convert(TOPIC, "value", value))
            for key, value in records
        ]
        self.avro.known = self.registry.known()
        expected, made = self.json.drain(records, headers), self.avro.drain(written, headers)
        assert self.avro.columns.names == self.json.columns.names
        assert repr(rows(made)) == repr(rows(expected))
        assert [(each.index, each.phase, each.field) for each in made.bad] == [
            (each.index, each.phase, each.field) for each in expected.bad
        ]
        assert made.indices == expected.indices
        assert self.avro.columns.remove(self.avro.columns.get_field_index("_kafka_key")) == (
            self.json.columns.remove(self.json.columns.get_field_index("_kafka_key"))
        )
        return made


def rows(decoded: Decoded) -> list[dict[str, Any]]:
    """Return the rows without the record's key, of which a table keeps the bytes."""
    made: list[dict[str, Any]] = decoded.table.drop_columns(["_kafka_key"]).to_pylist()
    return made


def recorded(name: str, since: Any = None, ends: Any = None) -> tuple[list[Any], list[Any]]:
    """Return the records with values of a recorded topic, between two moments or all, and their headers."""
    since = since or {}
    every = [
        each
        for each in recording()["records"][name]
        if each[3] is not None
        and since.get(str(each[0]), 0) <= each[1]
        and (ends is None or each[1] < ends[str(each[0])])
    ]
    headers = [[(name, text.encode()) for name, text in each[4]] for each in every]
    return [(each[2] and each[2].encode(), each[3].encode()) for each in every], headers


@pytest.mark.parametrize("layout", [layout_named("changes"), layout_named("mirror")])
@pytest.mark.parametrize("table", ["customers", "typed"])
def test_what_debezium_told_is_the_same_rows(layout: Layout, table: str) -> None:
    """Of each event that was recorded, all at once."""
    records, headers = recorded(f"shop.{table}")
    assert Both(layout).drain(records, headers).table.num_rows > len(records) / 3


@pytest.mark.parametrize("layout", [layout_named("changes"), layout_named("mirror")])
def test_from_moment_to_moment_rows_are_the_same(layout: Layout) -> None:
    """Altered in between, told again, emptied; tables get their columns as they come."""
    both, since = Both(layout), dict[str, int]()
    for moment in recording()["moments"]:
        ends = moment["ends"]["shop"]
        both.drain(*recorded("shop.customers", since, ends))
        since = ends


@pytest.mark.parametrize("copies", [1, 80])
def test_types_are_connects(copies: int) -> None:
    """Those that a schema names, whatever Avro writes them as."""
    assert not Both().drain([(TYPED.key(1), TYPED.event("c", ROW))] * copies).bad


@pytest.mark.parametrize(
    ("column", "value"),
    [("day", 2_147_483_647), ("at", 9_223_372_036_825_200_000), ("at", None), ("zoned", "infinity")],
)
@pytest.mark.parametrize("copies", [1, 80])
def test_what_iceberg_cannot_hold_is_named_as_of_json(column: str, value: Any, copies: int) -> None:
    """The column; all others are rows."""
    made = Both().drain([(TYPED.key(1), TYPED.event("c", {**ROW, column: value}))] * copies)
    assert {each.field for each in made.bad} == ({column} if value is not None else set())


CODE = Source({"id": Column("string", optional=False), "n": Column("double")})


@pytest.mark.parametrize("key", ["a", 'a"\\', "\u00fc \u4e2d", "\n\t"])
@pytest.mark.parametrize("op", ["c", "d"])
def test_a_key_is_the_text_that_it_is_in_json(key: str, op: str) -> None:
    """By which headers, deletes and other events name its row."""
    record = (CODE.key(key), CODE.event(op, None if op == "d" else {"id": key, "n": 0.5}))
    (row,) = rows(Both(layout_named("mirror")).drain([record]))
    assert row["_cdc_row_id"] == json.dumps({"id": key}, separators=(",", ":"), ensure_ascii=False)


def test_a_keys_field_that_rows_lack_has_no_column() -> None:
    """It is part of the key: a delete is read, and its row id has it."""
    key = CODE.key("a").replace(b'{"id":"a"}', b'{"dbz":"t1","id":"a"}')
    key = key.replace(b'"fields":[', b'"fields":[{"type":"string","optional":false,"field":"dbz"},')
    (row,) = rows(Both().drain([(key, CODE.event("d", None))]))
    assert json.loads(row["_cdc_row_id"]) == {"id": "a", "dbz": "t1"}
    assert (row["id"], "dbz" in row) == ("a", False)


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            Leaf(Kind.DECIMAL, 1, 9, 2),
        ),
        ({"type": "int", "logicalType": "date"}, Leaf(Kind.DATE)),
        ({"type": "int", "logicalType": "time-millis"}, Leaf(Kind.TIME, 1000)),
        ({"type": "long", "logicalType": "timestamp-millis"}, Leaf(Kind.TIMESTAMP, 1000)),
        ({"type": "long", "connect.name": f"{TIME}MicroTimestamp"}, Leaf(Kind.TIMESTAMP)),
        ({"type": "string", "connect.name": f"{DATA}Uuid"}, Leaf(Kind.UUID)),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, Leaf(Kind.STRING)),
        ({"type": "fixed", "name": "F", "size": 3}, Leaf(Kind.BINARY)),
        (["null", {"type": "map", "values": "int"}], Map(Leaf(Kind.INT))),
        (["int", "string"], None),
        ({"type": "record", "name": "N", "fields": []}, None),
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}, None),
        ({"type": "array", "items": ENTRY}, None),
        ("null", None),
    ],
    ids=str,
)
def test_what_a_schema_says_is_connects_type_or_refused_by_name(written: Any, kind: Type | None) -> None:
    """By Connect's names first, then by what Avro says; what has no form is no column by guess."""
    row = {"type": "record", "name": "Row", "fields": [{"name": "c", "type": written}]}
    parsed = parse(SchemaText(Language.AVRO, json.dumps(row)))
    text = json.dumps(connect_schema(parsed.written, parsed.named))
    if kind is None:
        with pytest.raises(ConfigError, match="schema-unsupported"):
            row_type(text, is_enveloped=False)
        return
    (column,) = row_type(text, is_enveloped=False).fields
    assert (column.type, column.may_be_null) == (kind, isinstance(written, list))


def framed(schema_id: int, bare: bytes = b"\0") -> bytes:
    """Return bytes that name a schema."""
    return b"\0" + schema_id.to_bytes(4) + bare


def test_a_new_schema_is_asked_for_and_one_that_nobody_has_is_a_letter() -> None:
    """Of values and of keys; with neither nothing is decoded by guess."""
    both = Both()
    both.drain([(CODE.key("a"), CODE.event("c", {"id": "a", "n": 1.5}))])
    key = both.converter.convert(TOPIC, "key", CODE.key("a"))
    value = both.converter.convert(TOPIC, "value", CODE.event("c", {"id": "a", "n": 1.5}))
    decoder = both.avro.format().decoder
    chunk = chunk_of([(key, framed(70)), (framed(71), value), (key, b"bare"), (b"", value), (key, value)])
    asked = decoder.decode(chunk, both.avro.columns)
    assert asked.table.num_rows == 0
    assert {str(each) for each in asked.new_fields.schemas} == {"70", "key/71"}
    assert {str(each) for each in decoder.observe(chunk).schemas} == {"70", "key/71"}
    ended = decoder.decode(chunk, both.avro.columns, GROWTH.ended())
    assert [(each.index, each.phase) for each in ended.bad] == [(at, Phase.SCHEMA) for at in range(4)]
    assert ended.indices == [4]
    assert both.avro.format().plain.decode(chunk, both.avro.columns).rows == [4]


def test_a_value_that_is_no_event_is_a_letter_that_says_so() -> None:
    """A row whose envelope was taken off, a text; and a key that is no record."""
    both = Both()
    key, text = both.registry.register("t-key", '"string"'), both.registry.register("t-value", '"string"')
    row = both.registry.register("t-value", json.dumps(avro_of(CODE.row({"id": "a", "n": 0.5}))))
    event = (CODE.key("a"), CODE.event("c", {"id": "a", "n": 0.5}))
    both.drain([event])
    right = both.converter.convert(TOPIC, "key", event[0])
    value = both.converter.convert(TOPIC, "value", event[1])
    both.avro.known = both.registry.known()
    chunk = chunk_of(
        [(right, framed(text, b"\2a")), (right, framed(row, b"\2\2a\0")), (framed(key, b"\2a"), value)]
    )
    bad = both.avro.format().decoder.decode(chunk, both.avro.columns).bad
    assert [(each.phase, each.field) for each in bad] == [
        (Phase.DECODE, "op"),
        (Phase.DECODE, "op"),
        (Phase.KEY, None),
    ]
    assert not both.avro.format().plain.decode(chunk, both.avro.columns).rows


def avro_of(document: bytes) -> Any:
    """Return the Avro schema of a JSON document with its schema."""
    return avro_schema_of(json.loads(document)["schema"])
