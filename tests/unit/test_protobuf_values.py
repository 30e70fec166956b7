"""Protobuf values: every one a right row or none, whatever its bytes, in bounded time."""

from __future__ import annotations

import json
import tracemalloc
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from spark_jobs.formats.protobuf.schema import ProtobufSchema, protobuf_schema
from spark_jobs.schema.writer_schema import (
    FINER_THAN_COLUMN,
    Language,
    SchemaText,
    UnreadableValueError,
)
from tests.unit.test_protobuf_schema import schema_of

BODY = """
message M {
  int32 i = 1; uint32 u = 2; optional int64 l = 3; uint64 big = 4; bool ok = 5; string s = 6; Kind kind = 7;
  google.protobuf.Timestamp at = 8; google.protobuf.Duration took = 9; map<string, M2> m = 10;
  repeated int32 many = 11; google.protobuf.StringValue w = 12; M2 inner = 13; bytes b = 14;
  google.protobuf.Int32Value wi = 15; google.protobuf.UInt32Value wu = 16;
}
message M2 { int32 x = 1; }
enum Kind { NONE = 0; GOOD = 1; }
"""
NODE = (
    "message Node { string name = 1; Node next = 2; map<string, Node> by = 3; bytes raw = 4; uint64 n = 5; }"
)
SCHEMA = schema_of(BODY, "M")


def one(value: bytes, schema: ProtobufSchema = SCHEMA) -> dict[str, Any] | str:
    """Return what of a value is not as it is by default, or why it is no row; both readers agree."""
    read = schema.read([value])
    if read.unread:
        with pytest.raises(UnreadableValueError) as refused:
            schema.read_plain(value)
        assert (str(refused.value), refused.value.field) == (read.unread[0].error, read.unread[0].field)
        return f"{read.unread[0].field}: {read.unread[0].error}"
    (row,), (empty,) = read.table.to_pylist(), schema.read([b""]).table.to_pylist()
    assert read.table.to_pylist() == schema.read([value] * 3).table.slice(1, 1).to_pylist()
    return {name: item for name, item in row.items() if item != empty[name]}


@pytest.mark.parametrize(
    ("value", "row"),
    [
        (b"", {}),
        (b"\x08\x01\x08\x02", {"i": 2}),
        (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", {"i": -1}),
        (b"\x08\x81\x80\x80\x80\x00", {"i": 1}),
        (b"\x18\x00", {"l": 0}),
        (b"\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", {"big": Decimal(2**64 - 1)}),
        (b"\x28\x05", {"ok": True}),
        (b"\x38\x01", {"kind": "GOOD"}),
        (b"\x38\x07", {"kind": "7"}),
        (b"\x42\x02\x08\x01", {"at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}),
        (b"\x4a\x02\x10\x64", f"took: 100 nanoseconds are {FINER_THAN_COLUMN}"),
        (b"\x52\x03\x0a\x01k", {"m": [("k", {"x": 0})]}),
        (b"\x52\x07\x0a\x01k\x12\x02\x08\x01\x52\x07\x0a\x01k\x12\x02\x08\x02", {"m": [("k", {"x": 2})]}),
        (b"\x58\x01\x5a\x02\x02\x03", {"many": [1, 2, 3]}),
        (b"\x32\x0e" + "éééé日a".encode() + b"\xc3\xa9", {"s": "éééé日aé"}),
        (b"\x18" + b"\x80" * 9 + b"\x00", {"l": 0}),
        (b"\x62\x00", {"w": ""}),
        (b"\x62\x02\x0a\x00", {"w": ""}),
        (b"\x6a\x02\x08\x01\x6a\x00", {"inner": {"x": 1}}),
    ],
)
def test_every_way_to_write_a_value_is_that_value(value: bytes, row: Any) -> None:
    """The last of two wins, messages are merged, numbers may be longer than they need to be."""
    assert one(value) == row


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"\x08\x80\x80\x80\x80\x10", "i: 4294967296 is more than the column holds"),
        (b"\x10\x80\x80\x80\x80\x10", "u: 4294967296 is more than the column holds"),
        (b"\x38\x80\x80\x80\x80\x10", "kind: 4294967296 is more"),
        (b"\x42\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\x3f", "not a value of the message"),
        (b"\x42\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x3f", "at: "),
        (b"\x4a\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x3f", "took: "),
        (b"\x4a\x0d\x08\x01\x10\x98\xf8" + b"\xff" * 7 + b"\x01", "another sign"),
        (b"\x42\x06\x10\xe8\x87\x80\x80\x10", "at: "),
        (b"\x4a\x06\x10\xe8\x87\x80\x80\x10", "took: "),
        (b"\x7a\x06\x08\x81\x80\x80\x80\x10", "wi: 4294967297 is more"),
        (b"\x82\x01\x06\x08\x81\x80\x80\x80\x10", "wu: 4294967297 is more"),
        (b"\x32\x01\xff", "not a value of the message"),
        (b"\x9a\x06\x01a", "fields that are not in the schema, by number: 99"),
        (b"\x6a\x04\x9a\x06\x01a", "by number: 13.99"),
        (b"\x52\x09\x0a\x01k\x12\x04\x9a\x06\x01a", "by number: 10.value.99"),
        (b"\x0a\x01a", "not valid by the schema, field number 1"),
        (b"\x00\x01", "not a value of the message"),
        (b"\x08", "not a value of the message"),
        (b"\x08" + b"\x80" * 9 + b"\x02", "a number of more than 64 bits"),
        (b"\x28" + b"\x81" * 9 + b"\x02", "a number of more than 64 bits"),
        (b"\x32\x81" + b"\x80" * 8 + b"\x02a", "a number of more than 64 bits"),
        (b"\x5a\x0b\x05" + b"\x80" * 9 + b"\x02", "a number of more than 64 bits"),
        (b"\x6a\x0b\x08" + b"\x80" * 9 + b"\x02", "a number of more than 64 bits"),
        (b"\x52\x10\x0a\x01k\x12\x0b\x08" + b"\xff" * 9 + b"\x7f", "a number of more than 64 bits"),
        (b"\x0a\x0a" + b"\x80" * 9 + b"\x02", "not valid by the schema, field number 1"),
        (b"\x08" + b"\x80" * 10 + b"\x01", "not a value of the message"),
        (b"\x72\xff\xff\xff\xff\xff\xff\xff\xff\x0f", "not a value of the message"),
    ],
)
def test_what_the_schema_does_not_say_is_no_row(value: bytes, why: str) -> None:
    """Nothing is cut, clamped or dropped; the reason names the field."""
    assert why in str(one(value))


ONEOF = "message O { oneof one { int32 x = 13; string y = 14; M2 m = 15; } map<string, M2> by = 6; }"
ONEOF += " message M2 { int32 x = 1; }"


@pytest.mark.parametrize(
    ("value", "row"),
    [
        (b"\x68\x01\x72\x00", {"y": ""}),
        (b"\x72\x00\x68\x00", {"x": 0}),
        (b"\x7a\x00\x68\x01", {"x": 1}),
        (b"\x68\x01\x7a\x00", {"m": {"x": 0}}),
    ],
)
def test_of_a_oneof_the_last_is_there_alone(value: bytes, row: Any) -> None:
    """At once and by itself."""
    assert one(value, schema_of(ONEOF, "O")) == row


def test_a_known_field_of_another_kind_is_no_row_whatever_may_be_passed_over() -> None:
    """Nor is a map's entry that says more than it should: it would be lost."""
    schema = schema_of(ONEOF, "O", ignores=True)
    for value in (b"\x32\x02\x18\x01", b"\x69\0\0\0\0\0\0\0\0", b"\x32\x05\x0a\x01k\x18\x01"):
        assert "not valid by the schema" in str(one(value, schema))


def test_extensions_are_unknown_fields() -> None:
    """No column is made of them."""
    text = 'syntax = "proto2"; message A { optional int32 a = 1; extensions 5 to 9; }'
    text += " extend A { optional int32 b = 5; }"
    schema = protobuf_schema(SchemaText(Language.PROTOBUF, text))
    assert "by number: 5" in str(one(b"\x08\x01\x28\x01", schema))


def test_a_key_of_proto2_that_is_no_text_is_no_row_beside_one_that_is() -> None:
    """Google's library gives the one as bytes, the other as text."""
    text = 'syntax = "proto2"; message A { map<string, int32> m = 1; }'
    schema = protobuf_schema(SchemaText(Language.PROTOBUF, text))
    assert "not UTF-8" in str(one(b"\x0a\x05\x0a\x01k\x10\x01\x0a\x05\x0a\x01\xff\x10\x01", schema))


def test_fields_may_be_called_as_methods_are() -> None:
    """In whatever order their numbers are."""
    body = "message A { optional int32 HasField = 9; int32 DESCRIPTOR = 2; int32 ListFields = 1;"
    body += " M2 FromString = 4; } message M2 { optional int32 HasField = 1; }"
    schema = schema_of(body, "A")
    assert one(b"\x48\x00\x10\x02\x22\x02\x08\x03", schema) == {
        "HasField": 0, "DESCRIPTOR": 2, "FromString": {"HasField": 3}
    }  # fmt: skip


def test_unknown_fields_are_counted_where_they_may_be_passed_over() -> None:
    """By their number path; the rest of the value is its row."""
    schema = schema_of(BODY, "M", ignores=True)
    read = schema.read([b"\x08\x01", b"\x08\x02\x9a\x06\x01a", b"\x6a\x04\x9a\x06\x01a"])
    assert [row["i"] for row in read.table.to_pylist()] == [1, 2, 0]
    assert dict(read.ignored) == {"99": 1, "13.99": 1}


def test_a_message_in_itself_is_json_from_there() -> None:
    """All that it says, nested as it is; what JSON cannot say is no row."""
    schema = schema_of(NODE, "Node")
    inner = b"\x0a\x01b\x22\x01\xff\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x1a\x05\x0a\x01k\x12\x00"
    value = b"\x0a\x01a\x12" + bytes([len(inner)]) + inner
    row = schema.read([value]).table.to_pylist()[0]
    empty = {"name": "", "next": None, "by": {}, "raw": "", "n": 0}
    assert json.loads(row["next"]) == {
        "name": "b", "next": None, "by": {"k": empty}, "raw": "/w==", "n": 2**64 - 1
    }  # fmt: skip
    free = schema_of("message F { google.protobuf.Struct s = 1; google.protobuf.Value v = 2; }", "F")
    number = b"\x11\x00\x00\x00\x00\x00\x00\xf8\x3f"
    read = free.read(
        [b"\x12\x09" + number, b"\x12\x02\x08\x00", b"\x12\x09\x11\x00\x00\x00\x00\x00\x00\xf8\x7f"]
    )
    assert [row["v"] for row in read.table.to_pylist()] == ["1.5", "null"]
    assert read.unread[0].field == "v"


def test_fields_that_a_free_value_does_not_have_are_unknown_however_deep_they_are() -> None:
    """What is JSON as a whole hides none: its value is no row, or they are counted by their number path."""
    body = "message F { google.protobuf.Value v = 1; }"
    value = b"\x0a\x08\x32\x06\x0a\x04\x9a\x06\x01a"
    assert str(one(value, schema_of(body, "F"))).endswith("by number: 1.6.1.99")
    assert dict(schema_of(body, "F", ignores=True).read([value]).ignored) == {"1.6.1.99": 1}


def nested(mark: bytes, levels: int) -> bytes:
    """Return a message in itself, so many times, in the field with this mark."""
    deep = b""
    for _ in range(levels):
        size, length = len(deep), b""
        while size > 127:
            length, size = length + bytes([size & 127 | 128]), size >> 7
        deep = mark + length + bytes([size]) + deep
    return deep


@pytest.mark.parametrize(
    "bomb",
    [
        nested(b"\x12", 10_000),
        b"\x0a" + b"\x80" * 8 + b"\x10",
        b"\x22" + b"\xff" * 8 + b"\x7f",
        b"\x1a" + b"\xff" * 9 + b"\x01",
        b"\x0a" + b"\x81" + b"\x80" * 8 + b"\x02a",
        b"\x9b\x06" * 10_000,
        b"\x9b\x06" * 10_000 + b"\x9c\x06" * 10_000,
        b"\x9b\x06\x9c\x06",
        b"\x28" + b"\x80" * 10_000 + b"\x00",
    ],
    ids=[
        "depth",
        "2^60",
        "2^63",
        "-1",
        "past 64 bits",
        "groups",
        "closed groups",
        "a group",
        "an endless number",
    ],
)
def test_a_bomb_is_one_letter_and_its_neighbours_are_rows(bomb: bytes) -> None:
    """Depth of thousands, lengths past all memory, groups in groups: no more than their own bytes."""
    node = schema_of(NODE, "Node")
    with pytest.raises(UnreadableValueError):
        node.read_plain(bomb)
    values = [b"\x0a\x01a"] * 200
    values[77] = bomb
    tracemalloc.start()
    read = node.read(values)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [each.index for each in read.unread] == [77]
    assert read.rows == [index for index in range(200) if index != 77]
    assert set(read.table["name"].to_pylist()) == {"a"}
    assert peak < 30_000_000


@pytest.mark.parametrize(
    ("entry", "pair"),
    [
        (b"", ("", {"x": 0})),
        (b"\x12\x02\x08\x05", ("", {"x": 5})),
        (b"\x0a\x01k", ("k", {"x": 0})),
        (b"\x12\x02\x08\x05\x0a\x01k", ("k", {"x": 5})),
        (b"\x0a\x01j\x0a\x01k\x12\x02\x08\x05", ("k", {"x": 5})),
    ],
)
def test_a_map_entry_without_key_or_value_has_their_defaults(entry: bytes, pair: Any) -> None:
    """Beside one that has both, among many and by itself."""
    value = b"\x52" + bytes([len(entry)]) + entry
    whole = b"\x52\x07\x0a\x01a\x12\x02\x08\x01"
    both = sorted([("a", {"x": 1}), pair])
    read = SCHEMA.read([value, whole + value] * 40).table["m"].to_pylist()
    assert [sorted(pairs) for pairs in read] == [[pair], both] * 40
    assert sorted(SCHEMA.read_plain(whole + value)["m"]) == both


def test_rows_in_doubt_stand_where_they_were() -> None:
    """Among thousands that are read at once."""
    values = [b"\x08\x01\x08\x02" if n % 10 == 3 else b"\x08" + bytes([n % 100 + 1]) for n in range(1000)]
    values[500] = b"\x08"
    read = SCHEMA.read(values)
    wanted = [2 if n % 10 == 3 else n % 100 + 1 for n in range(1000) if n != 500]
    assert [row["i"] for row in read.table.select(["i"]).to_pylist()] == wanted
    assert [each.index for each in read.unread] == [500]
