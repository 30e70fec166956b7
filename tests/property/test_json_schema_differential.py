"""Values by JSON Schemas against what was written, whole and damaged in every way."""

from __future__ import annotations

import json
import os
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema

from spark_jobs.formats.json_schema.schema import JsonSchema, json_schema
from spark_jobs.schema.arrow_schema import arrow_schema, column_of
from spark_jobs.schema.writer_schema import Language, SchemaText, UnreadableValueError
from tests.support.damage import HOSTILE_JSON

# SLUICE_EXAMPLES=100000 for a night of it.
_EXAMPLES = int(os.environ.get("SLUICE_EXAMPLES", "120"))
_FEW = 5
_ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=5,
)
_SAYING = _ANY.filter(lambda value: value is not None)
_MOMENTS = st.datetimes(timezones=st.just(UTC))
# A leaf's schema, its values as JSON has them, and what its column makes of one.
_LEAVES: dict[str, tuple[Any, Any, Any]] = {
    "long": ({"type": "integer"}, st.integers(-(2**63), 2**63 - 1), int),
    "int": ({"type": "integer", "connect.type": "int32"}, st.integers(-(2**31), 2**31 - 1), int),
    "double": ({"type": "number"}, st.floats(allow_nan=False, allow_infinity=False), float),
    "string": ({"type": "string", "maxLength": 1}, st.text(max_size=8), str),
    "symbol": ({"enum": ["a", "b", None]}, st.sampled_from(["a", "b"]), str),
    "boolean": ({"const": True}, st.booleans(), bool),
    "date": ({"type": "string", "format": "date"}, st.dates().map(date.isoformat), date.fromisoformat),
    "timestamp": (
        {"type": "string", "format": "date-time"},
        _MOMENTS.map(datetime.isoformat) | _MOMENTS.map(lambda at: at.isoformat().replace("+00:00", "Z")),
        datetime.fromisoformat,
    ),
    "uuid": ({"type": "string", "format": "uuid"}, st.uuids().map(str), lambda text: UUID(text).bytes),
}
_TEXTS: list[Any] = [
    True,
    {},
    {"type": ["string", "integer", "object"]},
    {"type": "object"},
    {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    {"oneOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "string"}}}]},
    {"type": "array", "items": [{"type": "string"}]},
]


@st.composite
def _types(draw: Any, depth: int) -> tuple[str, Any, Any]:
    """A type by name, its JSON Schema, and what is inside it."""
    match draw(st.integers(0, 9 if depth else 3)):
        case 0:
            return "text", draw(st.sampled_from(_TEXTS)), None
        case 4:
            inner = draw(_types(depth - 1))
            items = _maybe(draw, inner[1])
            return "text" if items in (True, {}) else "list", {"type": "array", "items": items}, inner
        case 5:
            inner = draw(_types(depth - 1).filter(lambda each: each[0] != "text"))
            return "map", {"type": ["object", "null"], "additionalProperties": inner[1]}, inner
        case 6 | 7 | 8:
            return draw(_records(depth - 1))
        case 9:
            return "text", {"$ref": "#"}, None
    name = draw(st.sampled_from(sorted(_LEAVES)))
    return name, _LEAVES[name][0], None


@st.composite
def _records(draw: Any, depth: int) -> tuple[str, Any, Any]:
    fields = {f"f{number}": draw(_types(depth)) for number in range(draw(st.integers(1, 4)))}
    properties = {name: _maybe(draw, each[1]) for name, each in fields.items()}
    closed = draw(st.sampled_from([{}, {"additionalProperties": False}, {"additionalProperties": True}]))
    if draw(st.booleans()):
        cut = draw(st.integers(0, len(properties)))
        parts = [dict(list(properties.items())[:cut]), dict(list(properties.items())[cut:])]
        return (
            "struct",
            {"allOf": [{"properties": part} for part in parts], "type": "object", **closed},
            fields,
        )
    return "struct", {"type": "object", "properties": properties, **closed}, fields


def _maybe(draw: Any, schema: Any) -> Any:
    return schema if draw(st.booleans()) else {"oneOf": [{"type": "null"}, schema]}


@st.composite
def _values(draw: Any, kind: tuple[str, Any, Any], *, odd: bool) -> Any:
    """A value of a type; an odd one may be another, and may say more."""
    name, _, inner = kind
    if odd and draw(st.integers(0, 9)) == 0:
        return draw(_ANY)
    if name == "text":
        return draw(_SAYING)
    if name == "list":
        return draw(st.lists(st.none() | _values(inner, odd=odd), max_size=3))
    if name == "map":
        return draw(st.dictionaries(st.text(max_size=3), st.none() | _values(inner, odd=odd), max_size=3))
    if name == "struct":
        there = {field: each for field, each in inner.items() if draw(st.integers(0, 4))}
        made = {field: draw(st.none() | _values(each, odd=odd)) for field, each in there.items()}
        return made | (draw(st.dictionaries(st.sampled_from(["f0", "x", "F0"]), _ANY)) if odd else {})
    return draw(_LEAVES[name][1])


def _is_as_written(made: Any, kind: tuple[str, Any, Any], value: Any) -> bool:
    name, _, inner = kind
    if value is None:
        return made is None
    if name == "text":
        return isinstance(made, str) and _is_same(json.loads(made), value)
    if name == "list":
        return len(made) == len(value) and all(
            _is_as_written(one, inner, other) for one, other in zip(made, value, strict=True)
        )
    if name == "map":
        return [key for key, _ in made] == [*value] and all(
            _is_as_written(one, inner, value[key]) for key, one in made
        )
    if name == "struct":
        return made.keys() == inner.keys() and all(
            _is_as_written(made[field], inner[field], value.get(field)) for field in inner
        )
    return _is_same(made, _LEAVES[name][2](value))


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return [*one] == [*other] and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return type(one) is type(other) and (repr(one) == repr(other) if isinstance(one, float) else one == other)


@st.composite
def _written(draw: Any, value: Any) -> bytes:
    """A value as some writer has it."""
    match draw(st.integers(0, 3)):
        case 0:
            try:
                return orjson.dumps(value)
            except TypeError:  # an integer past 64 bits
                return json.dumps(value).encode()
        case 1:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        case 2:
            return b"\n" + json.dumps(value, indent=1).encode() + b" "
    return json.dumps(value).encode()


_HOSTILE = st.sampled_from(
    [
        *HOSTILE_JSON,
        *(b"1", b"-0", b"1e400", b"1.0", b"1" * 50, b"9007199254740993"),
        *(b'"\\ud800"', b"\\u0000", b'"f0":1,', b'"x":[null],', b'"x":1e400,'),
        *(b'"2024-01-01T00:00:00+00:00:01"', b'"2024-02-30"'),
    ]
)


@st.composite
def _damaged(draw: Any, values: list[bytes]) -> bytes:  # noqa: PLR0911
    value, other = draw(st.sampled_from(values)), draw(st.sampled_from(values))
    at = draw(st.integers(0, len(value)))
    match draw(st.integers(0, 6)):
        case 0:
            return value[:at]
        case 1:
            return value + draw(st.binary(min_size=1, max_size=3) | _HOSTILE)
        case 2:
            return value[:at] + other[draw(st.integers(0, len(other))) :]
        case 3:
            return value[:at] + value[at + draw(st.integers(1, 3)) :]
        case 4:
            return value[:at] + draw(_HOSTILE) + value[at:]
        case 5:
            return value[:at] + draw(_HOSTILE) + value[at + 1 :]
    at = min(at, len(value) - 1)
    return value[:at] + bytes([value[at] ^ 1 << draw(st.integers(0, 7))]) + value[at + 1 :]


def _plain_rows(schema: JsonSchema, values: list[bytes], columns: pa.Schema) -> tuple[list[int], pa.Table]:
    rows, good = [], []
    for index, value in enumerate(values):
        try:
            rows.append(schema.read_plain(value))
            good.append(index)
        except UnreadableValueError:
            continue
    arrays = [column_of([row[column.name] for row in rows], column.type) for column in columns]
    return good, pa.Table.from_arrays(arrays, schema=columns)


def _check(schema: JsonSchema, values: list[bytes]) -> None:
    """At once every value is the row that it is by itself, or unread."""
    columns = arrow_schema(Schema(*schema.columns.struct.fields))
    read = schema.read(values)
    good, plain = _plain_rows(schema, values, columns)
    rows = read.rows if read.rows is not None else [*range(len(values))]
    assert rows == good, [values[index] for index in {*rows}.symmetric_difference(good)]
    assert [*range(len(values))] == sorted([*good, *(each.index for each in read.unread)])
    assert read.table.schema.equals(columns, check_metadata=True)
    read.table.validate(full=True)
    for one, other in zip(read.table.to_pylist(), plain.to_pylist(), strict=True):
        assert _is_same(one, other), (one, other)


@settings(max_examples=_EXAMPLES)
@given(st.data())
def test_every_value_is_a_right_row_or_unread(data: Any) -> None:
    """At once and by itself a value is the same row, and what was written, or unread."""
    kind = data.draw(_records(2) if data.draw(st.integers(0, 4)) else _types(2))
    schema = json_schema(
        SchemaText(Language.JSON_SCHEMA, json.dumps(kind[1])), ignores=data.draw(st.booleans())
    )
    if kind[1] == {"$ref": "#"}:
        kind = ("text", True, None)
    drawn = data.draw(st.lists(_values(kind, odd=False), min_size=_FEW, max_size=_FEW))
    values = [data.draw(_written(each)) for each in drawn]
    for value, written in zip(drawn, values, strict=True):
        made = schema.read_plain(written)
        assert _is_as_written(made["value"] if schema.columns.is_whole else made, kind, value), made
    _check(schema, values)
    odd = [data.draw(_written(each)) for each in data.draw(st.lists(_values(kind, odd=True), max_size=_FEW))]
    damaged = [data.draw(_damaged(values)) for _ in range(3 * _FEW)]
    _check(schema, data.draw(st.permutations([*values, *odd, *damaged])))
    for each in (*odd, *damaged):
        _check(schema, [each])
