"""Values read by a JSON Schema: right rows, or none with a reason, by both of its readers alike."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import pytest

from spark_jobs.config.value_format import KeySettings, UnknownFields, ValueFormat, ValueSettings
from spark_jobs.connections.writer_schemas import RecordSchemas
from spark_jobs.formats.json_schema.schema import JsonSchema, json_schema
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.work import layout_named
from spark_jobs.schema.schema_views import OneColumn
from spark_jobs.schema.writer_schema import Language, SchemaText, UnreadableValueError, WriterSchema

_STRING, _INTEGER, _NUMBER = ({"type": name} for name in ("string", "integer", "number"))


def _object(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


def _schema(text: Any, *, ignores: bool = False) -> JsonSchema:
    return json_schema(SchemaText(Language.JSON_SCHEMA, json.dumps(text)), ignores=ignores)


def _read(schema: WriterSchema, *values: bytes) -> list[Any]:
    """Return rows, or the fields where values are none; the plain reader must say the same."""
    read = schema.read(values)
    read.table.validate(full=True)
    found: dict[int, Any] = {each.index: each.field for each in read.unread}
    rows = range(len(values)) if read.rows is None else read.rows
    found |= dict(zip(rows, read.table.to_pylist(maps_as_pydicts="strict"), strict=True))
    assert sorted(found) == [*range(len(values))]
    for index, value in enumerate(values):
        if isinstance(found[index], dict):
            assert schema.read_plain(value).keys() == found[index].keys()
        else:
            with pytest.raises(UnreadableValueError):
                schema.read_plain(value)
    return [found[index] for index in range(len(values))]


_ORDER = _object(
    {
        "id": _INTEGER,
        "total": _NUMBER,
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "key": {"type": "string", "format": "uuid"},
        "tags": {"type": "array", "items": _STRING},
        "by": {"type": "object", "additionalProperties": _INTEGER},
        "any": {},
    }
)


def test_a_value_is_a_row_of_what_its_schema_names() -> None:
    """Of every type there is; what is not there, or null, is null."""
    uuid = "0b2e3c4d-1111-2222-3333-444455556666"
    value = {
        "id": 2**63 - 1,
        "total": 0.1,
        "day": "2024-02-29",
        "at": "2024-02-29T12:00:00.123456+02:00",
        "key": uuid,
        "tags": ["a", None],
        "by": {"x": 1},
        "any": {"a": [1, None]},
    }
    full, empty = _read(_schema(_ORDER), json.dumps(value).encode(), b' {"id":null} ')
    assert full == {
        **value,
        "day": date(2024, 2, 29),
        "at": datetime(2024, 2, 29, 10, 0, 0, 123456, tzinfo=UTC),
        "key": UUID(uuid),
        "any": '{"a":[1,null]}',
    }
    assert empty == dict.fromkeys(value)


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (b'{"id":9223372036854775808}', "id"),
        (b'{"id":1.0}', "id"),
        (b'{"id":"1"}', "id"),
        (b'{"total":9007199254740993}', "total"),
        (b'{"total":1e400}', "total"),
        (b'{"day":"2024-02-30"}', "day"),
        (b'{"at":"2024-02-29T12:00:00"}', "at"),
        (b'{"at":"2024-02-29T12:00:00.1234567Z"}', "at"),
        (b'{"key":"0b2e"}', "key"),
        (b'{"tags":"a"}', "tags"),
        (b'{"tags":["a",1]}', "tags.element"),
        (b'{"by":{"x":"y"}}', "by.x"),
        (b'{"other":1}', "other"),
        (b'{"id":1,"id":1}', "id"),
        (b'{"any":"\\ud800"}', None),
        (b'{"any":' + b"[" * 51 + b"]" * 51 + b"}", None),
        (b'{"any":' + b"[" * 100_000 + b"]" * 100_000 + b"}", None),
        (b'{"any":NaN}', None),
        (b"[]", None),
        (b"null", None),
        (b'{"id":1', None),
        (b'{"id":1}{}', None),
        (b"", None),
    ],
)
def test_what_no_column_holds_is_unread(value: bytes, field: str | None) -> None:
    """With the field where it is, and without harm to its neighbours."""
    assert _read(_schema(_ORDER), b'{"id":1}', value, b'{"id":2}')[1] == field


def test_json_text_is_what_the_value_says() -> None:
    """Without blanks, texts with few escapes; numbers, and the order of fields, as they were written."""
    numbers = "-0.0", "1.10", "1E+2", "1e99999999999999999999", "1" * 45, "-1"
    written = (
        f'{{"b" : [{", ".join(numbers)}],\n"a":"\\u00e9\\/\\n\\"\\u0001", "n":null,\t"t":true }}'.encode()
    )
    text = f'{{"b":[{",".join(numbers)}],"a":"é/\\n\\"\\u0001","n":null,"t":true}}'
    schema = _schema(_object({"any": {}, "each": {"type": "array", "items": {"enum": ["a", 1]}}}))
    (row,) = _read(schema, b'{"any":' + written + b',"each":["a",1,null,1.0]}')
    assert row == {"any": text, "each": ['"a"', "1", None, "1.0"]}
    assert schema.read_plain(b'{"any":' + written + b"}")["any"] == text


def test_a_value_that_is_no_object_is_one_column() -> None:
    """Whatever it is; what only looks like one when something is written around it is none."""
    texts = _schema({"type": ["string", "null"]})
    assert _read(texts, b'"a"', b"null", b' "b"\n', b"1", b'"a","x":null', b'"a"}{"value":"b"', b"") == [
        {"value": "a"},
        {"value": None},
        {"value": "b"},
        "value",
        None,
        None,
        None,
    ]
    listed = _schema({"type": "array", "items": _object({"x": _INTEGER})})
    assert _read(listed, b'[{"x":1}]', b'[{"y":1}]') == [{"value": [{"x": 1}]}, "value.element.y"]
    assert _read(_schema(True), b'{"a": 1.0}', b"[]") == [{"value": '{"a":1.0}'}, {"value": "[]"}]
    branches = _schema({"oneOf": [_object({"a": _STRING}), _object({"b": _STRING})]})
    assert _read(branches, b'{"b":"x"}') == [{"value": '{"b":"x"}'}]


def test_properties_that_are_not_named_can_be_passed_over() -> None:
    """Counted by name; those of an object that is closed, and says something there, never are."""
    inner = _object({"x": _INTEGER}, additionalProperties=False)
    schema = _schema(
        _object({"id": _INTEGER, "in": inner, "all": {"type": "array", "items": inner}}), ignores=True
    )
    values = (
        b'{"id":1,"more":{"a":1}}',
        b'{"id":2,"in":{"x":1,"y":2},"more":3}',
        b'{"id":3,"in":{"x":1,"y":[null]}}',
        b'{"all":[{"x":1},{"y":2}]}',
    )
    nothing = {"in": None, "all": None}
    third = {"id": 3, "in": {"x": 1}, "all": None}
    assert _read(schema, *values) == [{"id": 1, **nothing}, "in.y", third, "all.element.y"]
    assert schema.read(values).ignored.keys() == {"more"}
    assert _read(schema, b'{"in": {"x": 1, "y": 1e400}}') == ["in.y"]  # no double, and something all the same
    assert schema.read([b'{"id": 1, "y": 1e400}']).ignored == {"y": 1}
    strict = _schema(_object({"id": _INTEGER}, additionalProperties=False), ignores=True)
    assert _read(strict, b'{"id":1}', b'{"more":1}') == [{"id": 1}, "more"]
    whole = _schema({"type": "array", "items": {"allOf": [inner, _object({"z": _object({})})]}}, ignores=True)
    assert _read(whole, b'[{"x":1,"y":2}]', b'[{"x":1,"z":{"a":1.0}}]')[0] == "value.element.y"


def test_a_key_is_one_column() -> None:
    """A struct of its properties, or the value itself; as Avro's and Protobuf's are."""
    keys = OneColumn(_schema(_object({"id": _INTEGER, "any": {}})), "order_key")
    assert _read(keys, b'{"id":7,"any":1}', b"{}") == [
        {"order_key": {"id": 7, "any": "1"}},
        {"order_key": {"id": None, "any": None}},
    ]
    assert _read(OneColumn(_schema(_STRING), "order_key"), b'"a"', b"a") == [{"order_key": "a"}, None]
    assert keys.columns.as_text == ("order_key.any",)


def test_a_schema_of_a_file_refers_to_others(tmp_path: Any) -> None:
    """By their path in the folders that are named, with the settings that a pipeline says."""
    (tmp_path / "schemas" / "common").mkdir(parents=True)
    (tmp_path / "schemas" / "common" / "money.json").write_text(json.dumps(_object({"units": _INTEGER})))
    root = _object({"total": {"$ref": "common/money.json"}})
    (tmp_path / "schemas" / "order.json").write_text(json.dumps(root))

    def schemas(**more: Any) -> RecordSchemas:
        value = ValueSettings(format=ValueFormat.JSON_SCHEMA, file="schemas/order.json", **more)
        asked: Any = None
        return RecordSchemas(
            value,
            KeySettings(),
            topic="t",
            layout=layout_named("flat"),
            registry=lambda _: asked,
            folder=tmp_path,
        )

    only = schemas(include=["schemas"], unknown_fields=UnknownFields.IGNORE).known().only
    assert only is not None
    assert _read(only, b'{"total":{"units":5,"nanos":1}}') == [{"total": {"units": 5}}]
    with pytest.raises(ConfigError, match=r"common/money.json"):
        schemas().known()


@pytest.mark.parametrize("closed", ["additionalProperties", "unevaluatedProperties"])
def test_what_a_closed_object_has_no_name_for_makes_no_row(closed: str) -> None:
    """Whichever word closes it, and where others are passed over too."""
    closed_in = _object({"y": _INTEGER}, **{closed: False})
    schema = _schema(_object({"x": _INTEGER, "in": closed_in}), ignores=True)
    assert _read(schema, b'{"x":1,"in":{"y":2,"z":3}}', b'{"x":1,"in":{"y":2}}') == [
        "in.z",
        {"x": 1, "in": {"y": 2}},
    ]
