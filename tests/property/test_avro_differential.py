"""Avro values against an independent writer and a reference, whole and damaged in every way."""

from __future__ import annotations

import io
import json
import os
from itertools import count
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.schema import UnknownType
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema

from spark_jobs.avro.block import BlockReader
from spark_jobs.avro.parsing import parse
from spark_jobs.avro.schema import AvroSchema, avro_schema
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.arrow_schema import arrow_schema, column_of
from spark_jobs.schema.packed_values import PackedValues
from spark_jobs.schema.writer_schema import Language, SchemaText, UnreadableValueError
from tests.support.avro_reference import NoRowError, Reference

# SLUICE_EXAMPLES=250000 for a night of it.
_EXAMPLES = int(os.environ.get("SLUICE_EXAMPLES", "250"))
_FEW = 5
_PLAIN = ("boolean", "int", "long", "float", "double", "bytes", "string")
_LOGICAL = (
    ("int", "date"),
    ("int", "time-millis"),
    ("long", "time-micros"),
    *(
        ("long", f"{local}timestamp-{unit}")
        for local in ("", "local-")
        for unit in ("millis", "micros", "nanos")
    ),
    ("string", "uuid"),
)
_TIMES = (
    *(0, 1, -1, 999, 1000, 86_399_999, 86_400_000, 86_399_999_999, 86_400_000_000, 1_767_225_600_123),
    *(-719_162, -719_163, 2_932_896, 2_932_897, 253_402_300_799_999, 253_402_300_800_000),
    *(-62_135_596_800_000, -62_135_596_800_001, 253_402_300_799_999_999, 253_402_300_800_000_000),
    *(-62_135_596_800_000_000, -62_135_596_800_000_001, 1_767_225_600_123_456_000, 2**63 - 1, -(2**63)),
)


@st.composite
def _schemas(draw: Any) -> Any:  # noqa: C901  (a case for each type)
    names = (f"n{number}" for number in count())
    done: list[str] = []

    def leaf() -> Any:  # noqa: PLR0911
        match draw(st.integers(0, 9)):
            case 0:
                base, logical = draw(st.sampled_from(_LOGICAL))
                return {"type": base, "logicalType": logical}
            case 1:
                done.append(name := next(names))
                symbols = ["red", "green", "blue"][: draw(st.integers(1, 3))]
                return {"type": "enum", "name": name, "symbols": symbols}
            case 2:
                done.append(name := next(names))
                kind = {"type": "fixed", "name": name, "size": draw(st.sampled_from([1, 4, 12, 16, 1025]))}
                logical = {12: "duration", 16: "uuid"}.get(kind["size"])
                return kind | ({"logicalType": logical} if logical and draw(st.booleans()) else {})
            case 3:
                precision = draw(st.sampled_from([1, 5, 18, 19, 38, 39, 60]))
                scale = draw(st.integers(0, precision))
                decimal = {"logicalType": "decimal", "precision": precision, "scale": scale}
                if draw(st.booleans()):
                    return {"type": "bytes"} | decimal
                done.append(name := next(names))
                return {"type": "fixed", "name": name, "size": 26} | decimal
            case 4 if done:
                return draw(st.sampled_from(done))
        return draw(st.sampled_from(_PLAIN))

    def any_type(depth: int, around: tuple[str, ...]) -> Any:  # noqa: PLR0911
        if depth == 0:
            return leaf()
        match draw(st.integers(0, 11)):
            case 0 | 1:
                return record(depth - 1, around)
            case 2:
                return {"type": "array", "items": any_type(depth - 1, around)}
            case 3:
                return {"type": "map", "values": any_type(depth - 1, around)}
            case 4 | 5 | 6:
                member = any_type(depth - 1, around)
                if isinstance(member, list) or member == "null":
                    return member
                return ["null", member] if draw(st.booleans()) else [member, "null"]
            case 7:
                members = {
                    _branch_name(each): each for each in (any_type(depth - 1, around) for _ in range(3))
                }
                members.pop("", None)
                branches = [each for each in members.values() if each != "null"] or ["int"]
                return draw(st.permutations([*branches, *(["null"] if draw(st.booleans()) else [])]))
            case 8 if around and draw(st.booleans()):
                return ["null", draw(st.sampled_from(around))]
            case 9 if draw(st.booleans()):
                return "null"
        return leaf()

    def record(depth: int, around: tuple[str, ...]) -> Any:
        name = next(names)
        fields = [
            {"name": f"f{position}", "type": any_type(depth, (*around, name))}
            for position in range(draw(st.integers(0, 4)))
        ]
        done.append(name)
        return {"type": "record", "name": name, "fields": fields}

    return record(3, ()) if draw(st.integers(0, 9)) else any_type(2, ())


def _branch_name(schema: Any) -> str:
    if isinstance(schema, list):
        return ""
    return schema if isinstance(schema, str) else schema.get("name", schema["type"])


def _named(schema: Any, found: dict[str, Any]) -> dict[str, Any]:
    if isinstance(schema, list):
        for each in schema:
            _named(each, found)
    elif isinstance(schema, dict):
        if "name" in schema:
            found[schema["name"]] = schema
        for inner in (
            schema.get("items"),
            schema.get("values"),
            *(f["type"] for f in schema.get("fields", ())),
        ):
            _named(inner, found)
    return found


@st.composite
def _values(draw: Any, schema: Any, named: dict[str, Any], levels: int = 6) -> Any:
    if isinstance(schema, str) and schema in named:
        schema = named[schema]
    if isinstance(schema, list):
        if "null" in schema and (levels <= 0 or draw(st.integers(0, 3)) == 0):
            return None
        branch = draw(st.sampled_from([each for each in schema if each != "null"]))
        return (_branch_name(branch), draw(_values(branch, named, levels - 1)))
    kind = schema if isinstance(schema, str) else schema["type"]
    more = schema if isinstance(schema, dict) else {}
    if kind == "record":
        return {each["name"]: draw(_values(each["type"], named, levels - 1)) for each in schema["fields"]}
    if kind == "array":
        items = st.lists(_values(schema["items"], named, levels - 1), max_size=3 if levels > 0 else 0)
        return draw(items)
    if kind == "map":
        inner = _values(schema["values"], named, levels - 1)
        return draw(st.dictionaries(st.text(max_size=3), inner, max_size=3 if levels > 0 else 0))
    return draw(_leaf_values(kind, more))


def _leaf_values(kind: str, more: Any) -> Any:
    logical = more.get("logicalType")
    bits = 31 if kind == "int" else 63
    integers = st.integers(-(2**bits), 2**bits - 1)
    if logical == "uuid" and kind == "string":
        return st.uuids().map(str)
    if logical == "decimal":
        whole = st.integers(-(10 ** more["precision"]), 10 ** more["precision"])
        size = more.get("size")
        return whole.map(
            lambda number: number.to_bytes(size or number.bit_length() // 8 + 1, "big", signed=True)
        )
    if logical and kind in ("int", "long"):
        return st.sampled_from([each for each in _TIMES if -(2**bits) <= each < 2**bits]) | integers
    return {
        "null": st.none(),
        "boolean": st.booleans(),
        "int": integers,
        "long": integers,
        "float": st.floats(width=32),
        "double": st.floats(),
        "bytes": st.binary(max_size=20),
        "string": st.text(max_size=20),
        "fixed": st.binary(min_size=more.get("size", 0), max_size=more.get("size", 0)),
        "enum": st.sampled_from(more.get("symbols", [""])),
    }[kind]


def _written(parsed: Any, value: Any) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, parsed, value)
    return file.getvalue()


@st.composite
def _damaged(draw: Any, values: list[bytes]) -> bytes:  # noqa: PLR0911
    value, other = draw(st.sampled_from(values)), draw(st.sampled_from(values))
    at = draw(st.integers(0, len(value)))
    match draw(st.integers(0, 6)):
        case 0:
            return value[:at]
        case 1:
            return value + draw(st.binary(min_size=1, max_size=4))
        case 2:
            return value[:at] + other[draw(st.integers(0, len(other))) :]
        case 3:
            return value[:at] + value[at + draw(st.integers(1, 3)) :]
        case 4:
            return value[:at] + draw(_HOSTILE) + value[at:]
        case 5:
            return value[:at] + draw(_HOSTILE) + value[at + 1 :]
    if not value:
        return b"\0"
    at = min(at, len(value) - 1)
    return value[:at] + bytes([value[at] ^ 1 << draw(st.integers(0, 7))]) + value[at + 1 :]


def _long(number: int) -> bytes:
    return _written("long", number)


_HOSTILE = st.sampled_from(
    [
        *map(_long, (2**60, 2**40, -(2**40), -(2**63), 2**63 - 1, 2**31, -1, 3)),
        *(b"\x80" * 9 + b"\0", b"\x81" * 9 + b"\1", b"\x80" * 9 + b"\2", b"\xff" * 12, b"\x82\x00", b"\x02"),
        *(b"\x01\x02", b"\xc3\x28", b"\xed\xa0\x80"),
    ]
)


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return repr(one) == repr(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return type(one) is type(other) and one == other


def _plain_rows(schema: AvroSchema, values: list[bytes], columns: pa.Schema) -> tuple[list[int], pa.Table]:
    rows, good = [], []
    for index, value in enumerate(values):
        try:
            rows.append(schema.read_plain(value))
            good.append(index)
        except UnreadableValueError:
            continue
    arrays = [column_of([row[column.name] for row in rows], column.type) for column in columns]
    return good, pa.Table.from_arrays(arrays, schema=columns)


def _assert_same(read: pa.Table, plain: pa.Table) -> None:
    assert read.schema.equals(plain.schema, check_metadata=True)
    read.validate(full=True)
    assert read.num_rows == plain.num_rows
    for one, other in zip(read.to_pylist(), plain.to_pylist(), strict=True):
        assert _is_same(one, other), (one, other)


def _is_as_expected(made: Any, expected: Any) -> bool:
    """A struct of branches has nulls that the reference leaves out, a map pairs, a text of JSON is any."""
    if expected is ...:
        return isinstance(made, str) and json.loads(made) is not None
    if isinstance(expected, dict):
        if isinstance(made, list):
            return _is_as_expected([value for _, value in made], [*expected.values()]) and [
                key for key, _ in made
            ] == [*expected]
        return (
            isinstance(made, dict)
            and made.keys() == expected.keys()
            and all(_is_as_expected(made[key], expected[key]) for key in made)
        )
    if isinstance(expected, list):
        return len(made) == len(expected) and all(map(_is_as_expected, made, expected))
    return _is_same(made, expected)


def _check_written(schema: AvroSchema, reference: Reference, value: Any, written: bytes) -> None:
    try:
        expected = reference.row(value)
    except NoRowError:
        expected = None
    try:
        made = schema.read_plain(written)
    except UnreadableValueError as error:
        assert expected is None, (value, error)  # noqa: PT017
        return
    assert expected is not None, (value, made)
    assert _is_as_expected(made, expected), (made, expected)


def _supported(text: Any) -> AvroSchema | None:
    try:
        return avro_schema(SchemaText(Language.AVRO, json.dumps(text)))
    except ConfigError as error:
        if error.code != "schema-unsupported":
            raise
        return None


def _check_block(schema: AvroSchema, values: list[bytes], columns: pa.Schema) -> None:
    """What is read side by side, also of a few, is as each is by itself."""
    table, is_sure = BlockReader(parse(schema.source).root, columns).read(PackedValues.of(values))
    sure = [value for value, each in zip(values, is_sure.tolist(), strict=True) if each]
    good, plain = _plain_rows(schema, sure, columns)
    assert len(good) == len(sure)
    _assert_same(table, plain)


@settings(max_examples=_EXAMPLES)
@given(st.data())
def test_every_value_is_a_right_row_or_unread(data: Any) -> None:
    """At once, in blocks and by itself a value is the same row, and what the reference says, or unread."""
    text = data.draw(_schemas())
    try:
        parsed = fastavro.parse_schema(text)
    except UnknownType:  # defined in a branch that a second one of its name took the place of
        return
    schema = _supported(text)
    if schema is None:
        return
    named = _named(text, {})
    drawn = data.draw(st.lists(_values(text, named), min_size=_FEW, max_size=_FEW))
    values = [_written(parsed, each) for each in drawn]
    reference = Reference(text, named)
    for each, written in zip(drawn, values, strict=True):
        _check_written(schema, reference, each, written)
    columns = arrow_schema(Schema(*schema.columns.struct.fields))
    damaged = [data.draw(_damaged(values)) for _ in range(4 * _FEW)]
    mixed = data.draw(st.permutations([*values * 20, *damaged]))
    for each in (values, [*values[:2], *damaged]):
        _check_block(schema, each, columns)
    read = schema.read(mixed)
    good, plain = _plain_rows(schema, mixed, columns)
    assert [*range(len(mixed))] == sorted([*good, *(each.index for each in read.unread)])
    assert good == (read.rows if read.rows is not None else [*range(len(mixed))])
    _assert_same(read.table, plain)
