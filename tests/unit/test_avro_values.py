"""Avro values that a lax reader takes for others, that hang one, or kill its process."""

from __future__ import annotations

import io
import json
import tracemalloc
from typing import Any

import fastavro
import pytest

from spark_jobs.formats.avro.schema import AvroSchema, avro_schema
from spark_jobs.schema.writer_schema import Language, SchemaText, UnreadableValueError

_MANY = 300


def _schema(text: Any) -> AvroSchema:
    return avro_schema(SchemaText(Language.AVRO, json.dumps(text)))


def _of(kind: Any) -> AvroSchema:
    return _schema({"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]})


def _long(number: int) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, "long", number)
    return file.getvalue()


def _assert_unread(schema: AvroSchema, good: bytes, bad: bytes) -> str:
    """The value is unread alone, and among others, which are rows: at once and one by one."""
    with pytest.raises(UnreadableValueError) as caught:
        schema.read_plain(bad)
    for count in (1, _MANY):
        values = [good] * count
        values[count // 2 : count // 2] = [bad]
        read = schema.read(values)
        assert [(each.index, each.error) for each in read.unread] == [(count // 2, str(caught.value))]
        assert read.rows == [index for index in range(count + 1) if index != count // 2]
        assert read.table.num_rows == count
    return str(caught.value)


_FIXED = {"type": "fixed", "name": "f", "size": 4}
_ENUM = {"type": "enum", "name": "e", "symbols": ["A", "B"]}
_UUID = {"type": "string", "logicalType": "uuid"}


def _at(logical: str, base: str = "long") -> dict[str, str]:
    return {"type": base, "logicalType": logical}


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("int", _long(1), _long(2**40)),
        ("int", _long(1), _long(-(2**31) - 1)),
        ("boolean", b"\1", b"\2"),
        ("boolean", b"\1", b"\x80" * 9 + b"\0"),
        (_ENUM, b"\2", b"\1"),
        (_ENUM, b"\2", _long(2)),
        (["int", "string"], b"\0\2", b"\1\2a"),
        (["null", "int"], b"\2\2", b"\4\2"),
        (["int", "null"], b"\0\2", b"\4"),
        (["null", "int"], b"\2\2", _long(2**63 - 1) + b"\2"),
        ("long", b"\2", b"\x80" * 10 + b"\1"),
        ("long", b"\2", b"\x80" * 9 + b"\2"),
        ("long", b"\2", b"\x80"),
        ("long", b"\2", b""),
        ("long", b"\2", b"\2\2"),
        ("bytes", b"\2a", _long(2**60)),
        ("bytes", b"\2a", _long(-5)),
        ("string", b"\2a", b"\2\xff"),
        (_FIXED, b"abcd", b"abc"),
        ({"type": "array", "items": "double"}, b"\0", _long(2**60)),
        ({"type": "array", "items": ["null", "int"]}, b"\0", _long(2**40) + b"\0" * 50),
        ({"type": "array", "items": "long"}, b"\0", _long(-(2**63)) + b"\2\2\0"),
        ({"type": "map", "values": "int"}, b"\0", b"\4\2a\2\2a\4\0"),
        (_at("date", "int"), _long(1), _long(2_932_897)),
        (_at("time-millis", "int"), _long(1), _long(86_400_000)),
        (_at("timestamp-millis"), _long(1), _long(253_402_300_800_000)),
        (_at("local-timestamp-micros"), _long(1), _long(-62_135_596_800_000_001)),
        (_at("timestamp-nanos"), _long(1000), _long(1001)),
        (_UUID, b"\x48" + b"0a000000-0000-0000-0000-000000000000", b"\2a"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 1}, b"\2\1", b"\2\x64"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 1},
            b"\2\1",
            b"\x22\x7f" + b"\0" * 16,
        ),
    ],
    ids=str,
)
def test_what_the_schema_does_not_say_is_unread(kind: Any, good: bytes, bad: bytes) -> None:
    """Values that other readers take for others, or hang at, are one unread each."""
    assert _assert_unread(_of(kind), good, bad)


@pytest.mark.parametrize("left", [b"\0", b"abcdef", b"\2\2a", bytes(16), bytes(160)])
def test_bytes_left_over_at_the_end_of_a_block_are_unread(left: bytes) -> None:
    """Other readers never come back from joined values with bytes behind the last; here it does."""
    schema = _schema({"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]})
    read = schema.read([b"\2"] * _MANY + [b"\2" + left])
    assert [each.index for each in read.unread] == [_MANY]
    nothing = _schema({"type": "record", "name": "r", "fields": []})
    assert [each.index for each in nothing.read([b""] * _MANY + [left]).unread] == [_MANY]


def test_a_value_too_long_beside_one_too_short_is_no_row() -> None:
    """Joined they are two values; each by itself is none."""
    schema = _of("string")
    read = schema.read([b"\2a"] * _MANY + [b"\2ab", b""[:0], b"\2a"])
    assert [each.index for each in read.unread] == [_MANY, _MANY + 1]
    two = schema.read([b"\2a"] * _MANY + [b"\2a\2a", b""])
    assert [each.index for each in two.unread] == [_MANY, _MANY + 1]


def test_a_type_nested_in_itself_is_bounded() -> None:
    """A hundred levels are JSON text, ten thousand are unread; fastavro's process dies of them."""
    schema = _schema(
        {
            "type": "record",
            "name": "r",
            "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "r"]}],
        }
    )
    row = schema.read([b"\2\2" * 100 + b"\2\0"]).table.to_pylist()[0]
    text, levels = json.loads(row["next"]), 0
    while text is not None:
        text, levels = text["next"], levels + 1
    assert levels == 100
    for levels in (10_000, 1_000_000):
        assert "too deep" in _assert_unread(schema, b"\2\0", b"\2\2" * levels + b"\2\0")


def test_records_nested_in_themselves_beside_each_other_are_no_deeper() -> None:
    """However many of them an array has, a value is a row: its depth is bounded, not its length."""
    kind = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "all", "type": {"type": "array", "items": "r"}}],
    }
    value = _long(1_000) + b"\0" * 1_000 + b"\0"
    schema = _schema(kind)
    assert len(schema.read([value]).table.column("all")[0]) == len(schema.read_plain(value)["all"]) == 1_000


def test_json_text_loses_nothing() -> None:
    """What JSON has no word for is text: times, decimals, UUIDs, bytes as Avro's own JSON has them, NaN."""
    kinds = {
        "at": _at("timestamp-millis"),
        "day": _at("date", "int"),
        "sum": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
        "raw": "bytes",
        "odd": "double",
        "one": ["int", "string"],
        "by": {"type": "map", "values": "int"},
        "next": ["null", "r"],
    }
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    inner = (
        _long(0)
        + _long(1)
        + b"\2\x7b"
        + b"\4\xff\0"
        + b"\0\0\0\0\0\0\xf8\x7f"
        + b"\2\2a"
        + b"\2\2k\2\0"
        + b"\0"
    )
    row = _schema({"type": "record", "name": "r", "fields": fields}).read_plain(inner[:-1] + b"\2" + inner)
    assert row["next"] == (
        '{"at":"1970-01-01T00:00:00+00:00","day":"1970-01-02","sum":"1.23","raw":"ÿ\\u0000","odd":"NaN",'
        '"one":{"string":"a"},"by":{"k":1},"next":null}'
    )


def test_hostile_lengths_cost_neither_time_nor_memory() -> None:
    """A value that claims 2^60 of anything is read in the time and room of its own bytes."""
    kinds = [
        *("bytes", "string", {"type": "array", "items": "long"}, {"type": "map", "values": "double"}),
        {"type": "array", "items": {"type": "array", "items": "string"}},
        {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 0},
    ]
    peaks = []
    for kind in kinds:
        schema = _of(kind)
        for number in (2**60, 2**40, -(2**60), 2**63 - 1, -(2**63)):
            assert len(schema.read([_long(number) + b"\2" * 1000] * 100).unread) == 100
        tracemalloc.start()  # what is watched takes ten times as long
        schema.read([_long(2**60) + b"\2" * 1000] * 20)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(peaks) < 5_000_000, peaks


def test_good_values_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them goes the slow way, unions of records and nullable everything included."""
    inner = {"type": "record", "name": "i", "fields": [{"name": "x", "type": ["null", _UUID]}]}
    other = {"type": "record", "name": "o", "fields": [{"name": "y", "type": ["null", _FIXED]}]}
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    kinds = [
        *("boolean", "int", "float", "bytes", _ENUM, _at("timestamp-nanos"), ["null", decimal], "null"),
        *(["null", inner], ["i", other], {"type": "map", "values": ["null", "i"]}, ["boolean", "null"]),
        {"type": "array", "items": ["null", "o", "string"]},
    ]
    fields = [{"name": f"f{position}", "type": kind} for position, kind in enumerate(kinds)]
    text = {"type": "record", "name": "r", "fields": fields}
    schema = _schema(text)
    uuid = "0a000000-0000-0000-0000-000000000001"
    value = {
        "f0": True,
        "f1": -5,
        "f2": 1.5,
        "f3": b"\xff",
        "f4": "B",
        "f5": 5000,
        "f6": None,
        "f7": None,
        "f8": ("i", {"x": uuid}),
        "f9": ("o", {"y": b"abcd"}),
        "f10": {"k": None},
        "f11": False,
        "f12": [("o", {"y": None}), None, ("string", "a")],
    }
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(text), value)
    plain = schema.read([file.getvalue()]).table
    monkeypatch.setattr(
        "spark_jobs.formats.avro.plain.PlainReader.read", lambda *_: pytest.fail("one by one")
    )
    at_once = schema.read([file.getvalue()] * _MANY)
    assert at_once.table.slice(_MANY - 1).to_pylist() == plain.to_pylist()
    assert at_once.rows is None


@pytest.mark.parametrize("kind", [_UUID, "double", {"type": "fixed", "name": "d", "size": 12}], ids=str)
def test_many_values_of_no_bytes_are_unread(kind: Any) -> None:
    """There is next to nothing to look at then; the one that is null is a row."""
    read = _of(["null", kind]).read([b""] * _MANY + [b"\0"])
    assert [each.index for each in read.unread] == [*range(_MANY)]
    assert read.table.to_pylist() == [{"a": None}]


def test_no_values_are_no_rows() -> None:
    """With the columns all the same."""
    read = _of("int").read([])
    assert (read.table.num_rows, read.table.column_names, read.rows) == (0, ["a"], None)


def test_many_bytes_are_read_in_parts_as_if_at_once() -> None:
    """Rows, and what cannot be read, are at their places whatever stands before them."""
    schema = avro_schema(
        SchemaText(
            Language.AVRO,
            json.dumps(
                {
                    "type": "record",
                    "name": "R",
                    "fields": [{"name": "n", "type": "long"}, {"name": "b", "type": "bytes"}],
                }
            ),
        )
    )
    values = [bytes([2 * (n % 60)]) + b"\x80\x80\x02" + bytes(1 << 14) for n in range(400)]
    values[3] = values[390] = b"\x02"
    read = schema.read(values)
    assert [each.index for each in read.unread] == [3, 390]
    assert read.rows == [n for n in range(400) if n not in {3, 390}]
    assert read.table.column("n").to_pylist() == [n % 60 for n in read.rows]
    assert read.table.num_rows == 398
