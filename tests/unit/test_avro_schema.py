"""An Avro schema's text as columns, and the schemas that are none."""

from __future__ import annotations

import json
import pickle
import time
from typing import Any

import pytest

from spark_jobs.formats.avro.schema import AvroSchema, avro_schema
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.iceberg_types import type_text
from spark_jobs.schema.writer_schema import Language, SchemaText


def _schema(text: Any, *references: tuple[str, Any]) -> AvroSchema:
    texts = tuple((name, json.dumps(each)) for name, each in references)
    return avro_schema(SchemaText(Language.AVRO, json.dumps(text), texts))


def _record(*fields: Any, name: str = "r", **more: Any) -> dict[str, Any]:
    made = [each if isinstance(each, dict) else {"name": each[0], "type": each[1]} for each in fields]
    return {"type": "record", "name": name, "fields": made, **more}


def _types(schema: AvroSchema) -> dict[str, str]:
    fields = schema.columns.struct.fields
    assert not any(field.required for field in fields)
    return {field.name: type_text(field.field_type) for field in fields}


def _fixed(size: int, name: str = "f", **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def _logical(base: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": base, "logicalType": logical, **more}


_ENUM = {"type": "enum", "name": "e", "symbols": ["A", "B"]}
_DURATION = "struct<months: long, days: long, millis: long>"


@pytest.mark.parametrize(
    ("written", "column"),
    [
        *((base, base) for base in ("boolean", "int", "long", "float", "double", "string")),
        ("bytes", "binary"),
        (_ENUM, "string"),
        (_fixed(7), "fixed[7]"),
        (_fixed(100_000), "binary"),
        (_logical("bytes", "decimal", precision=38, scale=4), "decimal(38, 4)"),
        (_logical("bytes", "decimal", precision=39, scale=4), "string"),
        (_logical("bytes", "decimal", precision=2, scale=4), "binary"),
        (_logical("bytes", "decimal"), "binary"),
        (_fixed(16, logicalType="uuid"), "uuid"),
        (_fixed(15, logicalType="uuid"), "fixed[15]"),
        (_logical("string", "uuid"), "uuid"),
        (_fixed(12, logicalType="duration"), _DURATION),
        (_logical("int", "date"), "date"),
        (_logical("int", "time-millis"), "time"),
        (_logical("long", "time-micros"), "time"),
        *((_logical("long", f"timestamp-{unit}"), "timestamptz") for unit in ("millis", "micros", "nanos")),
        *(
            (_logical("long", f"local-timestamp-{unit}"), "timestamp")
            for unit in ("millis", "micros", "nanos")
        ),
        (_logical("string", "timestamp-millis"), "string"),
        (_logical("long", "of-tomorrow"), "long"),
        ({"type": "array", "items": ["null", "int"]}, "list<int>"),
        ({"type": "map", "values": _logical("int", "date")}, "map<string, date>"),
        (["null", "string"], "string"),
        (["string", "null"], "string"),
        (["string"], "string"),
        (["null", "int", "string"], "struct<int: int, string: string>"),
        (
            ["int", _ENUM, _record(("x", "int"), name="a.b.P")],
            "struct<int: int, e: string, P: struct<x: int>>",
        ),
        ([_record(("x", "int"), name="a.P"), _record(("y", "int"), name="b.P")], None),
        (_record(("x", "null"), name="i"), "boolean"),
        (_record(name="i"), "boolean"),
        (["null", _record(name="i")], "boolean"),
    ],
    ids=str,
)
def test_each_type_has_its_column(written: Any, column: str | None) -> None:
    """A type leads to the column that holds each of its values exactly; to which one is a rule."""
    wanted = column or "struct<a_P: struct<x: int>, b_P: struct<y: int>>"
    assert _types(_schema(_record(("c", written)))) == {"c": wanted}
    if not isinstance(written, dict) or written["type"] != "record":
        assert _types(_schema(written)) == {"value": wanted}


_INSIDE = {"type": {"type": "long", "logicalType": "timestamp-millis"}}
_STANDS = "is next to its type, where Avro ignores it"


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, "{type: timestamptz, from: epoch_ms}"),
        (
            {"type": ["null", "long"], "logicalType": "timestamp-micros"},
            "{type: timestamptz, from: epoch_us}",
        ),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "{type: timestamp, from: epoch_ms}"),
        (
            {"type": "long", "connect.name": "org.apache.kafka.connect.data.Timestamp"},
            "{type: timestamptz, from: epoch_ms}",
        ),
        (
            {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"},
            "{type: timestamp, from: epoch_us}",
        ),
        ({"type": "long", "logicalType": "timestamp-nanos"}, f"timestamp-nanos {_STANDS}: long as it is"),
        ({"type": "int", "logicalType": "date"}, f"date {_STANDS}: int as it is"),
        (
            {"type": ["null", "bytes"], "logicalType": "decimal", "precision": 4, "scale": 2},
            f"decimal {_STANDS}: bytes as it is",
        ),
        (_INSIDE, None),
        ({**_INSIDE, "logicalType": "timestamp-millis"}, None),
        ({"type": "long"}, None),
        ({"type": _record(("x", "int"), name="p"), "connect.name": "shop.P"}, None),
    ],
    ids=str,
)
def test_a_meaning_beside_the_type_is_passed_over_with_a_word(
    field: dict[str, Any], told: str | None
) -> None:
    """As Avro's own readers do: the column's type stays; where `from:` makes times, a line to paste."""
    schema = _schema(_record({"name": "t", **field}))
    bare = {"name": "t", "type": field["type"]}
    assert schema.columns.struct == _schema(_record(bare)).columns.struct
    assert bool(schema.columns.notes) == (told is not None)
    assert (told or "") in schema.columns.notes.get("t", "")
    inside = _schema(_record(("s", _record({"name": "t", **field}, name="q")))).columns.notes
    assert not any("columns:" in each for each in inside.values())
    assert inside.keys() == ({"s.t"} if told else set())


def test_an_enum_has_symbols_of_any_text() -> None:
    """As other languages' writers take them; a default, which is for other readers, is not looked at."""
    symbols = ["GRÖSSE", "not-set", "2xx", "", "A"]
    enum = {"type": "enum", "name": "e", "symbols": symbols, "default": "gone"}
    schema = _schema(_record(("a", enum), ("b", ["null", "e"])))
    assert _types(schema) == {"a": "string", "b": "string"}
    values = [bytes([2 * n, 2, 2 * n]) for n in range(5)]
    told = [{"a": symbol, "b": symbol} for symbol in symbols]
    assert [dict(schema.read_plain(value)) for value in values] == told
    assert schema.read(values * 20).table.to_pylist() == told * 20
    assert _types(_schema(_record(("x", "ns.e")), ("ns.e", {**enum, "name": "ns.e"}))) == {"x": "string"}


def test_a_lone_null_is_no_column() -> None:
    """It says nothing; a schema of nothing else has one column that says the value was there."""
    assert _types(_schema(_record(("a", "null"), ("b", "int"), ("c", ["null"])))) == {"b": "int"}
    for nothing in (_record(), _record(("a", "null"))):
        assert _types(_schema(nothing)) == {"value": "boolean"}


def test_a_type_in_itself_is_json_text() -> None:
    """From the depth where a type meets itself its values are text, and the columns are named."""
    tree = _record(("v", "int"), ("left", ["null", "r"]), ("rest", {"type": "array", "items": "r"}))
    schema = _schema(tree)
    assert _types(schema) == {"v": "int", "left": "string", "rest": "list<string>"}
    assert schema.columns.as_text == ("left", "rest.element")


def test_identities_are_paths_of_names() -> None:
    """Through lists, maps and branches, with what a field and those around it were called before."""
    inner = _record({"name": "x", "type": "int", "aliases": ["w"], "doc": "how far"}, name="i")
    schema = _schema(
        _record(
            {"name": "p", "type": {"type": "array", "items": inner}, "aliases": ["q"]},
            ("m", {"type": "map", "values": ["null", "i", "int"]}),
            ("n", ["null", "i"]),
        )
    )
    columns = schema.columns
    wanted = {"p", "p.element.x", "m", "m.value.i", "m.value.i.x", "m.value.int", "n", "n.x"}
    assert set(columns.identities.values()) == wanted
    by_identity = {path: field_id for field_id, path in columns.identities.items()}
    assert columns.aliases[by_identity["p"]] == ("q",)
    assert set(columns.aliases[by_identity["p.element.x"]]) == {"p.element.w", "q.element.x", "q.element.w"}
    (element,) = columns.struct.fields[0].field_type.element_type.fields
    assert (element.doc, element.field_id) == ("how far", by_identity["p.element.x"])


def test_references_are_named_types() -> None:
    """What another schema defines is used by its full name, at any depth."""
    point = _record(("x", "int"), name="geo.Point")
    line = _record(("from", "geo.Point"), ("to", "geo.Point"), name="geo.Line")
    schema = _schema(_record(("line", "geo.Line")), ("geo.Point", point), ("geo.Line", line))
    assert _types(schema) == {"line": "struct<from: struct<x: int>, to: struct<x: int>>"}


def test_short_names_are_of_the_namespace_around_them() -> None:
    """As Avro has it: a reference's own, and that of the record it is used in."""
    point = _record(("x", "int"), name="Point", namespace="geo")
    line = _record(("from", "Point"), ("to", ["null", "Point"]), name="Line", namespace="geo")
    wanted = {"from": "struct<x: int>", "to": "struct<x: int>"}
    assert _types(_schema(line, ("geo.Point", point))) == wanted


def test_a_wide_schema_is_read_at_once() -> None:
    """Five thousand fields are columns in seconds, not in their square."""
    began = time.monotonic()
    assert len(_types(_schema(_record(*((f"f{number}", "int") for number in range(5000)))))) == 5000
    assert time.monotonic() - began < 20


def test_it_travels_as_its_text_alone() -> None:
    """What was made of it stays in the process; the other one makes it again."""
    schema = _schema(_record(("a", "int")))
    schema.read([b"\2"])
    there = pickle.loads(pickle.dumps(schema))  # noqa: S301  (its own)
    assert there == schema
    assert len(pickle.dumps(schema)) < 500
    assert there.read_plain(b"\2") == {"a": 1}


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "7", '"strin"', '{"type": "fixed", "name": "f"}'),
        *(
            '{"fields": []}',
            '["int", "int"]',
            '["int", ["int"]]',
            '{"type": "fixed", "name": "f", "size": -1}',
        ),
        *('{"type": "record", "name": "r", "fields": [{"name": "a", "type": "gone"}]}', "[" * 5000),
        *(
            '{"type": "array", "items": ' * 10_000 + '"int"' + "}" * 10_000,
            "[" * 10_000 + '"int"' + "]" * 10_000,
        ),
        *(
            '{"type": "enum", "name": "e", "symbols": ["A", "A"]}',
            '{"type": "enum", "name": "e", "symbols": ["A", 7]}',
            '{"type": "record", "name": "r", "fields": 7}',
        ),
        *('{"type": "array"}', '{"type": null}', 'syntax = "proto3";'),
    ],
)
def test_text_that_is_no_schema_is_named(text: str) -> None:
    """Whatever it is, it is this one error."""
    with pytest.raises(ConfigError) as caught:
        avro_schema(SchemaText(Language.AVRO, text))
    assert caught.value.code == "schema-unreadable"


_DOUBLING = [_record(("a", f"d{n}"), ("b", f"d{n}"), name=f"d{n + 1}") for n in range(30)]
_NO_BYTES = ("null", _record(name="i"), _fixed(0), _record(("x", "null"), ("y", _fixed(0)), name="i"))


@pytest.mark.parametrize(
    ("schema", "references", "says"),
    [
        *((_record(("a", {"type": "array", "items": each})), (), "take no bytes") for each in _NO_BYTES),
        *((_record(("a", {"type": "map", "values": each})), (), "take no bytes") for each in _NO_BYTES),
        (_record(("a", "int"), ("A", "int")), (), "only in case"),
        (_record(("a", "int"), ("a", "int")), (), "twice"),
        (_record(("_kafka_offset", "int")), (), "Sluice's own"),
        (_record(("a.b", "int")), (), "dot"),
        (_record(("a", _logical("bytes", "decimal", precision=5000, scale=0))), (), "digits"),
        ("d30", (("d0", _record(("x", "int"), name="d0")), *((e["name"], e) for e in _DOUBLING)), "types"),
        (json.loads('{"type": "array", "items": ' * 60 + '"int"' + "}" * 60), (), "deeper"),
        ("null", (), "null"),
    ],
)
def test_schemas_without_a_table_are_refused(schema: Any, references: Any, says: str) -> None:
    """Items of nothing, names that clash, types that double with each other: named, and at once."""
    with pytest.raises(ConfigError, match=says) as caught:
        _schema(schema, *references)
    assert caught.value.code == "schema-unsupported"


def test_a_type_defined_in_another_that_it_holds_is_met_where_it_comes_again() -> None:
    """By its definition as by its name: the columns are the same from wherever they are reached."""
    inner = _record(("outer", ["null", "o"]), ("n", "int"), name="i")
    both = _record(("a", _record(("inner", inner), name="o")), ("b", "i"))
    assert _types(_schema(both)) == {
        "a": "struct<inner: struct<outer: string, n: int>>",
        "b": "struct<outer: struct<inner: string>, n: int>",
    }


def test_items_that_contain_their_array_take_bytes() -> None:
    """A type in itself is no reason to refuse: the array around it is a byte at least."""
    tree = _record(("children", {"type": "array", "items": "r"}))
    assert _types(_schema(tree)) == {"children": "list<string>"}
    with pytest.raises(ConfigError, match="take no bytes"):
        _schema({"type": "array", "items": _record(("a", "r"))})
