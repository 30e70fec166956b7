"""Decoding a chunk against an independent reference, record by record."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema

from prove.hostile.odd_json import FAMILIES, Family
from spark_jobs.formats.json.block import decode_chunk
from spark_jobs.formats.json.infer import observe
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.records.layouts.flat import PlainFlatDecoder, PlainJsonDecoder
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.iceberg_types import (
    HEADERS,
    KEY,
    declared_fields,
    iceberg_schema,
    with_metadata_columns,
)
from spark_jobs.schema.inference import choose_types
from tests.support.damage import EXAMPLES, HOSTILE_JSON, SEEDS, damaged
from tests.support.json_reference import SCHEMA, expected_row, has_new_field, is_same

_ENVELOPE = arrow_schema(with_metadata_columns(Schema()))
_COLUMNS = pa.schema([*SCHEMA, _ENVELOPE.field(KEY), _ENVELOPE.field(HEADERS)])

# Texts, not values: what matters is how a thing is written.
_INTEGERS = st.one_of(
    st.integers().map(str),
    st.integers(-(2**66), 2**66).map(str),
    st.sampled_from(["-0", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "9" * 400]),
)
_FRACTIONS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        ["2.0", "1e400", "-1e400", "1e-400", "1E+2", "0e9999", "1e-999999999", "0.1", "4.9e-324"]
    ),
    st.sampled_from(["NaN", "Infinity", "-Infinity", "Inf", "01", "+1", "1.", ".5", "0x1", "1_0", "--1"]),
)
_TIMES = st.one_of(
    st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
    st.datetimes().map(lambda moment: moment.isoformat(" ") + "+05:30"),
    st.sampled_from(
        [
            "2024-01-01T00:00:00",
            "2024-01-01",
            "2024-02-30T00:00:00Z",
            "2024-01-01T00Z",
            "2024-01-01T00:00-01",
            "2024-01-01T00:00:00.1234567Z",
            "2016-12-31T23:59:60Z",
            "2024-01-01T24:00:00Z",
            "3000-01-01T00:00:00Z",
            "0000-01-01T00:00:00Z",
            "0001-01-01T00:00:00+01:00",
            "9999-12-31T23:59:59.999999Z",
            "9999-12-31T23:59:59-01:00",
            "2024-01-01t00:00:00z",
            "2024-01-01T00:00:00+24:00",
            "20240101T000000Z",
            "2024-01-01T00:00:00,5Z",
            "2024-01-01T00:00:00+00:60",
            "2024-01-01T00:00:00 Z",
            "",
            "٢٠٢٤-01-01T00:00:00Z",
        ]
    ),
).map(json.dumps)
_STRINGS = st.one_of(
    st.text(max_size=20).map(json.dumps),
    st.text(max_size=20).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(
        [
            '"\\ud800"',
            '"\\udc00\\ud800"',
            '"\\ud83d\\ude00"',
            '"\\u0000"',
            '"\\x"',
            '"\t"',
            '"}\\n{"',
            '"',
            "'a'",
        ]
    ),
    st.integers(1, 70_000).map(lambda length: f'"{"x" * length}"'),
)
_SCALARS = st.one_of(st.sampled_from(["null", "true", "false"]), _INTEGERS, _FRACTIONS, _TIMES, _STRINGS)
_BLANK = st.sampled_from(["", "", "", " ", "\n", "\r\n\t"])


def _array(items: Any) -> Any:
    return st.lists(items, max_size=3).map(lambda parts: f"[{','.join(parts)}]")


@st.composite
def _object(draw: Any, fields: dict[str, Any], others: Any) -> str:
    names = draw(
        st.lists(st.sampled_from(sorted(fields)), unique=draw(st.booleans() | st.just(True)), max_size=5)
    )
    pairs = [
        (json.dumps(name), draw(fields[name] if draw(st.integers(0, 9)) else _SCALARS)) for name in names
    ]
    pairs += draw(st.lists(others, max_size=1))
    body = ",".join(f"{name}{draw(_BLANK)}:{draw(_BLANK)}{value}" for name, value in pairs)
    return f"{{{draw(_BLANK)}{body}{draw(_BLANK)}}}"


_EMPTY = st.sampled_from(["null", "[]", "{}", "[null]", '{"a":null}', "[[],{}]"])
_ODD_PAIRS = st.one_of(
    st.tuples(
        st.sampled_from(['"extra"', '"ID"', '""', '"_kafka_offset"', '"\\u0069d"', '"\\ud800"']), _EMPTY
    ),
    st.tuples(
        st.sampled_from(['"ID"', '""', '"_kafka_offset"', '"_Ingested_At"', '"\\u0069d"', '"Point"']),
        _SCALARS,
    ),
    st.tuples(st.sampled_from(['"fresh"', '"fresh.er"']), _SCALARS),
)
_POINT = _object(
    {"x": _INTEGERS, "at": _TIMES, "names": _array(_STRINGS | st.just("null"))},
    st.tuples(st.sampled_from(['"X"', '"y"', '""']), _EMPTY | _SCALARS),
)
_RECORD = _object(
    {
        "id": _INTEGERS,
        "ratio": _INTEGERS | _FRACTIONS,
        "ok": st.sampled_from(["true", "false", "null"]),
        "name": _STRINGS,
        "at": _TIMES,
        "point": _POINT,
        "points": _array(_POINT | st.just("null")),
        "matrix": _array(_array(_INTEGERS | _FRACTIONS) | st.just("null")),
    },
    _ODD_PAIRS,
)
_DEEP = st.tuples(st.sampled_from(["[", '{"a":']), st.integers(50, 3000)).map(
    lambda nest: f'{{"deep":{nest[0] * nest[1]}1{("]" if nest[0] == "[" else "}") * nest[1]}}}'
)
_ODD_VALUES = st.one_of(
    st.binary(max_size=20),
    st.sampled_from(
        [b"", b" ", b"null", b"{", b"}", b"[]", b"{}{}", b'{"id":1}{"id":2}', b'{"id":1},{"id":2}']
    ),
    st.sampled_from(
        [b'{"name":"\xff"}', b'{"\xff":null}', b'\xef\xbb\xbf{"id":1}', b'{"id":1}\x00', b'{"id":1}\x00}']
    ),
    st.sampled_from(
        [b'{"name":"\xed\xa0\x80"}', b'{"id":1} //}', b'{"id":1,}', b'{"id":1', b'"id":1}', b'{"id":1} x {}']
    ),
    _DEEP.map(str.encode),
)


@st.composite
def _value(draw: Any) -> bytes:
    if draw(st.integers(0, 14)) == 0:
        return draw(_ODD_VALUES)
    text = draw(_RECORD).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 19)) == 0:
        cut = draw(st.integers(0, len(text)))
        return text[:cut]
    return draw(_BLANK).encode() + text + draw(_BLANK).encode()


def _check(values: list[bytes], schema: pa.Schema = SCHEMA) -> None:
    decoded = decode_chunk(values, schema)
    if decoded.new_fields is not None:
        assert any(map(has_new_field, values))
        return
    expected = [expected_row(value, schema) for value in values]
    bad = {value.index for value in decoded.unread}
    rows = list(range(len(values))) if decoded.rows is None else decoded.rows
    assert sorted(bad | set(rows)) == list(range(len(values)))
    assert rows == sorted(set(rows) - bad)
    assert decoded.table.schema.equals(schema, check_metadata=True)
    decoded.table.validate(full=True)
    for row, index in zip(decoded.table.to_pylist(), rows, strict=True):
        assert expected[index] is not None, values[index]
        assert is_same(row, expected[index]), (values[index], row, expected[index])
    for value in decoded.unread:
        wanted = expected[value.index]
        assert wanted is None or value.error == "the decoder refused it", (values[value.index], value)


@settings(max_examples=400)
@given(st.lists(_value(), min_size=1, max_size=6))
@example([b'{"id":1}{"id":2}', b""])
@example([b'{"id":1', b'"name":"a"}'])
@example([b'{"name":"a}', b'{","id":1}'])
@example([b"null", b'{"id":1}'])
@example([b'{"id":1}\x00}', b'{"id":2}'])
def test_every_record_is_a_right_row_or_a_bad_value(values: list[bytes]) -> None:
    """Good rows equal the reference's exactly and in order, all others are bad values, none is missing."""
    _check(values)


_FEW_BYTES = 2000  # the reference looks at character after character


@settings(max_examples=EXAMPLES // 2)
@given(st.lists(_value().filter(lambda value: len(value) < _FEW_BYTES), min_size=1, max_size=6), SEEDS)
def test_damaged_records_are_right_rows_or_bad_values(values: list[bytes], seed: int) -> None:
    """Cut, longer, spliced, flipped: beside each other and those that they were made of."""
    chance = random.Random(seed)
    values += damaged(values, chance, HOSTILE_JSON)
    chance.shuffle(values)
    _check([each for each in values if not has_new_field(each)])
    for each in filter(has_new_field, values):  # beside others nothing but this would be said
        _check([each])


@settings(max_examples=300)
@given(_value())
def test_a_record_alone(value: bytes) -> None:
    """The same for records that have no neighbours to be refused for, which is the fast way most often."""
    _check([value])


@settings(max_examples=300)
@given(st.lists(_value(), min_size=1, max_size=6))
@example([b'{"deep":' + b"[" * 1019 + b"1" + b"]" * 1019 + b"}"])
def test_the_plain_decoder_says_what_every_row_holds(values: list[bytes]) -> None:
    """What audit compares with: each record that is a row has exactly the reference's, and says no more."""
    count = len(values)
    chunk = Chunk(0, [*range(count)], [0] * count, [b"k"] * count, [*values], [[("h", b"")]] * count)
    plain = PlainFlatDecoder(PlainJsonDecoder()).decode(chunk, _COLUMNS)
    plain.table.validate(full=True)
    rows = dict(zip(plain.rows, plain.table.to_pylist(), strict=True))
    for index, expected in enumerate(map(expected_row, values)):
        if expected is not None:
            more = {KEY: "k", HEADERS: [{"key": "h", "value": b""}]}
            # Equal, not the same: Python's reader makes 0 of -0, and no comparison tells 0.0 from -0.0.
            assert rows[index] == {**expected, **more}, (values[index], rows[index], expected)
            assert index not in plain.has_more
        elif index in rows and has_new_field(values[index]):
            assert index in plain.has_more, values[index]


# The reference looks at character after character: it would take half a minute for the megabytes.
@pytest.mark.parametrize(
    "family", [f for f in FAMILIES if f.name != "megabytes"], ids=lambda family: family.name
)
def test_every_odd_record_is_a_right_row_or_a_bad_value(family: Family) -> None:
    """The same for the records that `./sluice prove` drains, in the columns that they lead to."""
    values = family.records()
    fields = choose_types(observe(values), declared_fields(family.columns))
    schema = arrow_schema(iceberg_schema(fields))
    assert decode_chunk(values, schema).new_fields is None
    _check(values, schema)
