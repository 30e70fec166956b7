"""A JSON Schema's text as columns, and the schemas that are none."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from pyiceberg.schema import Schema

from spark_jobs.formats.json_schema.schema import JsonSchema, json_schema
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.iceberg_types import type_text
from spark_jobs.schema.placing import Rules, place
from spark_jobs.schema.writer_schema import Language, SchemaText


def _schema(text: Any, *references: tuple[str, Any]) -> JsonSchema:
    texts = tuple((name, json.dumps(each)) for name, each in references)
    return json_schema(SchemaText(Language.JSON_SCHEMA, json.dumps(text), texts))


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _types(schema: JsonSchema) -> dict[str, str]:
    fields = schema.columns.struct.fields
    assert not any(field.required for field in fields)
    return {field.name: type_text(field.field_type) for field in fields}


_STRING, _INTEGER, _NUMBER, _NULL = ({"type": name} for name in ("string", "integer", "number", "null"))
_POINT = _object(x=_INTEGER)
_JSON = "string as JSON"


@pytest.mark.parametrize(
    ("written", "column"),
    [
        (_STRING, "string"),
        (_INTEGER, "long"),
        (_NUMBER, "double"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "integer", "minimum": 0, "maximum": 10}, "long"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "format": "date-time"}, "timestamptz"),
        ({"type": "string", "format": "uuid"}, "uuid"),
        ({"type": "string", "format": "time"}, "string"),
        ({"type": "string", "format": "email", "pattern": "@"}, "string"),
        ({"type": "string", "format": ["date"]}, "string"),
        ({"type": "integer", "format": "date"}, "long"),
        ({"type": "integer", "connect.type": "int8"}, "int"),
        ({"type": "integer", "connect.type": "int32"}, "int"),
        ({"type": "integer", "connect.type": "int64"}, "long"),
        ({"type": "number", "connect.type": "float32"}, "float"),
        ({"type": "number", "connect.type": "float64"}, "double"),
        ({"type": "number", "connect.type": "int32"}, "double"),
        ({"type": "string", "connect.type": "bytes"}, "string"),
        ({"enum": ["a", "b"]}, "string"),
        ({"enum": ["a", None]}, "string"),
        ({"enum": [1, 2]}, "long"),
        ({"enum": [1, 2.5]}, "double"),
        ({"enum": [True]}, "boolean"),
        ({"enum": ["a", 1]}, _JSON),
        ({"type": "string", "enum": ["a", 1]}, "string"),
        ({"const": "a"}, "string"),
        ({"const": {"a": 1}}, _JSON),
        ({"type": ["null", "string"]}, "string"),
        ({"type": ["string"]}, "string"),
        ({"type": ["integer", "number"]}, "double"),
        ({"type": ["string", "integer"]}, _JSON),
        ({"type": ["object", "null"], "properties": {"x": _INTEGER}}, "struct<x: long>"),
        ({"oneOf": [_NULL, _STRING]}, "string"),
        ({"anyOf": [_INTEGER, {"const": None}]}, "long"),
        ({"oneOf": [_NULL, {"oneOf": [_NULL, {"type": "integer", "connect.type": "int16"}]}]}, "int"),
        ({"oneOf": [_NULL, _POINT]}, "struct<x: long>"),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, "string"),
        ({"anyOf": [_INTEGER, _NUMBER]}, "double"),
        ({"anyOf": [_STRING, _INTEGER]}, _JSON),
        ({"anyOf": [_STRING, {"type": "boolean"}]}, _JSON),
        ({"oneOf": [_POINT, _object(y=_INTEGER)]}, _JSON),
        ({"anyOf": [{"minimum": 1}, _INTEGER]}, _JSON),
        ({"anyOf": [{"anyOf": [_INTEGER, _STRING]}, _INTEGER]}, _JSON),
        ({"type": "string", "anyOf": [{"pattern": "a"}, {"format": "ipv4"}]}, "string"),
        ({"type": "string", "anyOf": [_STRING, _INTEGER]}, "string"),
        ({**_POINT, "oneOf": [{"required": ["x"]}, {"required": ["y"]}]}, "struct<x: long>"),
        ({**_POINT, "anyOf": [{"properties": {"x": {"const": 1}}}, {}]}, "struct<x: long>"),
        ({**_POINT, "oneOf": [_object(y=_INTEGER), _object(z=_INTEGER)]}, _JSON),
        ({**_POINT, "if": {}, "then": {"required": ["x"]}}, "struct<x: long>"),
        ({**_POINT, "if": {}, "then": _object(y=_STRING)}, _JSON),
        ({**_POINT, "dependentSchemas": {"x": _object(y=_STRING)}}, _JSON),
        ({**_POINT, "dependencies": {"x": ["y"]}}, "struct<x: long>"),
        ({"allOf": [_POINT, _object(y=_STRING)]}, "struct<x: long, y: string>"),
        ({**_POINT, "allOf": [_object(x={"minimum": 3}, y=_STRING)]}, "struct<x: long, y: string>"),
        ({"allOf": [_INTEGER, _NUMBER]}, "long"),
        ({"properties": {"x": _INTEGER}}, "struct<x: long>"),
        ({"type": "object", "additionalProperties": _INTEGER}, "map<string, long>"),
        ({"additionalProperties": _POINT}, "map<string, struct<x: long>>"),
        ({"type": "object", "additionalProperties": {"anyOf": [_STRING, _NUMBER]}}, f"map<string, {_JSON}>"),
        ({"type": "object", "additionalProperties": _NULL}, _JSON),
        ({"type": "object", "additionalProperties": _INTEGER, "patternProperties": {"a": _STRING}}, _JSON),
        ({"type": "object", "additionalProperties": True}, _JSON),
        ({"type": "object", "additionalProperties": False}, _JSON),
        ({"type": "object"}, _JSON),
        (_object(a=_NULL), _JSON),
        ({"type": "array", "items": _STRING}, "list<string>"),
        ({"items": {"type": ["null", "integer"]}}, "list<long>"),
        ({"type": "array", "items": {"type": "array", "items": _POINT}}, "list<list<struct<x: long>>>"),
        ({"type": "array", "items": {"type": ["string", "integer"]}}, f"list<{_JSON}>"),
        ({"type": "array", "items": [_STRING, _INTEGER]}, _JSON),
        ({"type": "array", "prefixItems": [_STRING], "items": _INTEGER}, _JSON),
        ({"type": "array", "items": _NULL}, _JSON),
        ({"type": "array", "items": True}, _JSON),
        ({"type": "array"}, _JSON),
        ({}, _JSON),
        (True, _JSON),
        ({"description": "anything"}, _JSON),
    ],
    ids=str,
)
def test_each_type_has_its_column(written: Any, column: str) -> None:
    """A type leads to the column that holds each of its values exactly; to which one is a rule."""
    schema = _schema(_object(c=written))
    assert _types(schema) == {"c": column.replace(_JSON, "string")}
    inner = {"list<": ".element", "map<": ".value"}
    beside = "".join(step for kind, step in inner.items() if kind in column)
    assert schema.columns.as_text == ((f"c{beside}",) if _JSON in column else ())
    if not column.startswith("struct"):
        whole = _schema(written)
        assert (_types(whole), whole.columns.is_whole) == ({"value": column.replace(_JSON, "string")}, True)


def test_null_and_what_nothing_can_be_are_no_columns() -> None:
    """They say nothing; a schema of nothing else is no table's."""
    both = {"allOf": [_STRING, _INTEGER]}
    assert _types(_schema(_object(a=_NULL, b=_INTEGER, c=False, d={"anyOf": [_NULL]}, e=both))) == {
        "b": "long"
    }
    for nothing in (False, _NULL, both, {"allOf": [_POINT, False]}, {"enum": [None]}):
        with pytest.raises(ConfigError, match="schema-unsupported"):
            _schema(nothing)


@pytest.mark.parametrize(
    ("reference", "more"),
    [
        ("#/definitions/p", {"definitions": {"p": _POINT}}),
        ("#/$defs/a~1b%25~0/1", {"$defs": {"a/b%~": [{}, _POINT]}}),
        ("#point", {"$defs": {"p": {"$anchor": "point", **_POINT}}}),
        ("#point", {"$defs": {"p": {"$id": "#point", **_POINT}}}),
        ("point.json", {"$id": "http://a/b/root.json", "$defs": {"p": {"$id": "point.json", **_POINT}}}),
        ("/b/point.json", {"$id": "http://a/b/root.json", "$defs": {"p": {"$id": "point.json", **_POINT}}}),
        (
            "http://a/p",
            {
                "$schema": "http://json-schema.org/draft-04/schema#",
                "definitions": {"p": {"id": "http://a/p", **_POINT}},
            },
        ),
        ("#/$defs/q", {"$defs": {"q": {"$ref": "#/$defs/p"}, "p": _POINT}}),
        ("#/$defs/q", {"$id": "urn:a:b", "$defs": {"q": {"$ref": "#/$defs/p"}, "p": _POINT}}),
    ],
)
def test_references_inside_a_schema(reference: str, more: dict[str, Any]) -> None:
    """By pointer, anchor and ``$id``, whatever dialect they are written in."""
    assert _types(_schema({**_object(c={"$ref": reference}), **more})) == {"c": "struct<x: long>"}


def test_references_to_other_schemas() -> None:
    """By the name of the reference, alone or beside the schema's own ``$id``, and by theirs, at any depth."""
    point = {"$id": "http://other/point", **_POINT}
    line = {"definitions": {"end": {"$ref": "point.json"}}, **_object(to={"$ref": "#/definitions/end"})}
    references = ("geo/point.json", point), ("geo/line.json", line)
    wanted = {"a": "struct<to: struct<x: long>>", "b": "struct<x: long>", "c": "struct<x: long>"}
    root = _object(
        a={"$ref": "geo/line.json#"},
        b={"$ref": "geo/line.json#/definitions/end"},
        c={"$ref": "http://other/point#"},
    )
    assert _types(_schema(root, *references)) == wanted
    assert _types(_schema({"$id": "http://here/root.json", **root}, *references)) == wanted


def test_a_type_in_itself_is_json_text() -> None:
    """From the depth where a type meets itself its values are text, and the columns are named."""
    tree = _object(
        v=_INTEGER, left={"$ref": "#"}, rest={"type": "array", "items": {"anyOf": [{"$ref": "#"}, _NULL]}}
    )
    schema = _schema(tree)
    assert _types(schema) == {"v": "long", "left": "string", "rest": "list<string>"}
    assert schema.columns.as_text == ("left", "rest.element")
    base = _object(id=_INTEGER)
    inner = {"allOf": [{"$ref": "#/$defs/base"}, _object(name=_STRING)]}
    outer = {"allOf": [{"$ref": "#/$defs/base"}, _object(inner=inner)], "$defs": {"base": base}}
    assert _types(_schema(outer)) == {"id": "long", "inner": "struct<id: long, name: string>"}
    assert _types(_schema({"$ref": "#"})) == {"value": "string"}


def test_identities_are_paths_of_names() -> None:
    """Through lists and maps; a column's text is the nearest description, else a title."""
    point = {**_object(x={**_INTEGER, "title": "X", "description": "how far"}), "title": "Point"}
    listed = {"type": "array", "items": {"$ref": "#/$defs/p"}}
    mapped = {"type": "object", "additionalProperties": {"$ref": "#/$defs/p"}}
    schema = _schema(
        {
            **_object(p={"$ref": "#/$defs/p"}, l=listed, m={**mapped, "description": "by name"}),
            "$defs": {"p": point},
        }
    )
    wanted = {"p", "p.x", "l", "l.element.x", "m", "m.value.x"}
    assert set(schema.columns.identities.values()) == wanted
    found = Schema(*schema.columns.struct.fields)
    assert [found.find_field(name).doc for name in ("p", "l", "m", "p.x")] == [
        "Point",
        None,
        "by name",
        "how far",
    ]


def test_new_versions_are_placed_by_the_same_identities() -> None:
    """A new property is a column, one of another type is one beside the first, a wider number widens."""
    small = {"type": "integer", "connect.type": "int32"}
    first = _schema(_object(id=small, p=_object(x=_STRING), gone=_STRING)).columns
    second = _schema(_object(id=_INTEGER, p=_object(x=_INTEGER, y=_STRING), new=_STRING)).columns
    evolution, names = place([first, second], Schema(), {}, Rules(100))
    added = {".".join(path) for path, _, _ in evolution.additions}
    assert {"id", "p", "gone", "new", "p.y", "p.x_2"} <= added
    assert evolution.widenings.keys() == {("id",)}
    assert names[1] == (("id", "id", ()), ("p", "p", (("x", "x_2", ()), ("y", "y", ()))), ("new", "new", ()))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "JSONDecodeError"),
        ("[" * 100_000, "RecursionError"),
        ("[]", "where a schema should be"),
        ('{"properties": {"a": 1}}', "where a schema should be"),
        ('{"properties": []}', "properties that are not an object"),
        ('{"type": "text"}', "text is not a type"),
        ('{"type": [{"type": "string"}]}', "is not a type"),
        ('{"oneOf": {}}', "oneOf that is not a list"),
        ('{"allOf": 1}', "allOf that is not a list"),
        ('{"enum": "a"}', "enum that is not a list"),
        ('{"$ref": 1}', "a .ref that is not a text"),
        ('{"$ref": "#/definitions/a"}', "a .ref points to nothing: #/definitions/a"),
        ('{"$ref": "other.json"}', "a .ref points to nothing: other.json"),
        ('{"$ref": "http://[x"}', "a .ref points to nothing"),
        ('{"items": {"$ref": "#/type"}, "type": "array"}', "a .ref points to nothing"),
    ],
)
def test_what_is_no_schema_is_named(text: str, why: str) -> None:
    """With the reason, and no other exception."""
    with pytest.raises(ConfigError, match=why) as error:
        json_schema(SchemaText(Language.JSON_SCHEMA, text))
    assert error.value.code == "schema-unreadable"


@pytest.mark.parametrize(
    "properties",
    [
        {"id": _INTEGER, "ID": _STRING},
        {"_kafka_offset": _INTEGER},
        {"a.b": _INTEGER},
        {"": _INTEGER},
        {"x" * 300: _INTEGER},
    ],
)
def test_names_that_cannot_be_columns_are_refused(properties: dict[str, Any]) -> None:
    """Before anything is read by them."""
    with pytest.raises(ConfigError, match=r"cannot become columns: .* .schema-unsupported"):
        _schema(_object(**properties))


def _doubling(levels: int, join: str) -> dict[str, Any]:
    """Return a schema in which each definition names the next one twice."""
    twice = [
        {"allOf": [{"$ref": f"#/$defs/{n + 1}"}, {"$ref": f"#/$defs/{n + 1}", "title": ""}]}
        if join == "allOf"
        else _object(a={"$ref": f"#/$defs/{n + 1}"}, b={"$ref": f"#/$defs/{n + 1}"})
        if join == "properties"
        else {"anyOf": [_object(a={"$ref": f"#/$defs/{n + 1}"}), {"$ref": f"#/$defs/{n + 1}"}]}
        for n in range(levels)
    ]
    return {"$ref": "#/$defs/0", "$defs": {str(n): each for n, each in enumerate([*twice, _POINT])}}


def _shared(count: int, each: Any, shared: Any) -> dict[str, Any]:
    return {**_object(**{f"c{n}": each for n in range(count)}), "$defs": {"shared": shared}}


_SHARED = {"$ref": "#/$defs/shared"}
_CHAIN = {str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(20_000)} | {"20000": _POINT}


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        (_doubling(60, "allOf"), False),
        (_doubling(60, "properties"), True),
        (_doubling(60, "anyOf"), False),
        (_shared(500, _SHARED, _object(**{f"f{n}": _STRING for n in range(500)})), True),
        (_shared(2000, {"anyOf": [_SHARED, {"const": "x"}]}, {"enum": [str(n) for n in range(2000)]}), True),
        ({"$ref": "#/$defs/0", "$defs": _CHAIN}, False),
    ],
    ids=["allOf", "properties", "anyOf", "wide", "enums", "chain"],
)
def test_a_bomb_is_refused_or_bounded(text: Any, is_refused: bool) -> None:
    """What is named again and again doubles neither time nor memory."""
    if is_refused:
        with pytest.raises(ConfigError, match="schema-unsupported"):
            _schema(text)
    else:
        assert _types(_schema(text))


def test_deep_types_are_refused() -> None:
    """Parquet's readers open no such file."""
    deep: Any = _INTEGER
    for _ in range(60):
        deep = {"type": "array", "items": deep}
    with pytest.raises(ConfigError, match=r"are nested deeper .* .schema-unsupported"):
        _schema(deep)


def test_it_travels_as_its_text_alone() -> None:
    """What was made of it stays in the process; the other one makes it again."""
    schema = _schema(_object(a=_STRING))
    assert schema.read([b'{"a":"b"}']).table.to_pylist() == [{"a": "b"}]
    pickled = pickle.dumps(schema)
    again = pickle.loads(pickled)  # noqa: S301  (our own bytes)
    assert (again, hash(again)) == (schema, hash(schema))
    assert len(pickled) < 600
    assert again.read([b'{"a":"c"}']).table.to_pylist() == [{"a": "c"}]
