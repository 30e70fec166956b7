"""A chunk of JSON values: each becomes a right row or a bad value that says why."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.formats.json.block import decode_chunk, read_chunk, read_schema
from spark_jobs.formats.json.nesting import MAX_NESTING
from spark_jobs.schema.writer_schema import ReadValues
from tests.support.json_reference import POINT, SCHEMA

READ_AS = read_schema(SCHEMA)
GOOD = b'{"id":1}'


def only(value: bytes, schema: pa.Schema = SCHEMA) -> ReadValues:
    """Decode one value in front of a good one, which must come out right whatever the first is."""
    decoded = decode_chunk([value, GOOD], schema)
    if decoded.new_fields is None:
        assert decoded.table.num_rows == 2 - len(decoded.unread)
        assert decoded.table.column("id")[-1].as_py() == 1
    return decoded


def values_of(decoded: ReadValues, column: str) -> list[Any]:
    """A column of the good rows."""
    return decoded.table.column(column).to_pylist()


def test_a_clean_chunk_is_decoded_at_once() -> None:
    """Columns, order and types are the schema's; what a record does not have is null."""
    decoded = decode_chunk([b'{"name":"b","id":2}', b'{"ok":true}', b"{}"], SCHEMA)
    assert (decoded.rows, decoded.unread, decoded.new_fields) == (None, (), None)
    assert decoded.table.schema.equals(SCHEMA, check_metadata=True)
    assert values_of(decoded, "id") == [2, None, None]
    assert values_of(decoded, "name") == ["b", None, None]


def test_an_empty_chunk_is_an_empty_table() -> None:
    """No values, no rows, and still the schema's columns."""
    assert decode_chunk([], SCHEMA).table.schema == SCHEMA


def test_field_ids_stay_on_the_columns() -> None:
    """The schema's metadata is on the result, nested fields included: writers find columns by field id."""
    inner = pa.field("x", pa.int64(), metadata={"PARQUET:field_id": "2"})
    schema = pa.schema([pa.field("p", pa.struct([inner]), metadata={"PARQUET:field_id": "1"})])
    assert decode_chunk([b'{"p":{"x":1,"y":null}}'], schema).table.schema.equals(schema, check_metadata=True)


def test_a_table_without_columns_still_has_rows() -> None:
    """A topic of empty objects gives as many rows as it has records."""
    assert decode_chunk([b"{}", b'{"a":null}'], pa.schema([])).table.num_rows == 2


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (b"", "the value is empty"),
        (b" \n\t", "the value is empty"),
        (b"null", "not a JSON object but null"),
        (b"[1]", "not a JSON object but an array"),
        (b"7", "not a JSON object but an integer"),
        (b'"{}"', "not a JSON object but a string"),
        (b"{", "not JSON"),
        (b'{"id":1', "not JSON"),
        (b'{"id":1}{"id":2}', "not JSON: Extra data"),
        (b'{"id":1,}', "not JSON"),
        (b"{'id':1}", "not JSON"),
        (b'{"id":01}', "not JSON"),
        (b'{"id":1}\x00', "not JSON"),
        (b'{"id":1}\x00}', "not JSON"),
        (b'{"ratio":NaN}', "not JSON: NaN"),
        (b'{"other":NaN}', "not JSON: NaN"),
        (b'{"matrix":[[-Infinity]]}', "not JSON: -Infinity"),
        (b'{"name":"a\nb"}', "not JSON"),
        (b'{"name":"\xff"}', "not UTF-8"),
        (b'{"\xff":null}', "not UTF-8"),
        (b'{"name":"\xed\xa0\x80"}', "not UTF-8"),
        (b'\xef\xbb\xbf{"id":1}', "not JSON"),
        (b'{"name":"\\ud800"}', "not JSON: half of a surrogate pair"),
        (b'{"\\udc00":null}', "not JSON: half of a surrogate pair"),
        (b'{"x":' + b"[" * 50 + b"]" * 50 + b"}", "nests deeper than 50"),
    ],
)
def test_what_is_no_object_is_undecodable(value: bytes, error: str) -> None:
    """Whatever is not exactly one JSON object is a bad value without a field; its neighbour is not harmed."""
    decoded = only(value)
    (bad,) = decoded.unread
    assert (bad.index, bad.field) == (0, None)
    assert error in bad.error
    assert decoded.rows == [1]


@pytest.mark.parametrize(
    ("value", "field", "error"),
    [
        (b'{"id":1.5}', "id", "a number with a fraction or exponent where the column has an integer"),
        (b'{"id":2.0}', "id", "a number with a fraction"),
        (b'{"id":2e3}', "id", "a number with a fraction"),
        (b'{"id":9223372036854775808}', "id", "past 64 bits"),
        (b'{"id":-9223372036854775809}', "id", "past 64 bits"),
        (b'{"id":' + b"9" * 5000 + b"}", "id", "past 64 bits"),
        (b'{"id":"7"}', "id", "a string where the column has an integer"),
        (b'{"id":true}', "id", "a boolean where"),
        (b'{"id":{}}', "id", "an object where"),
        (b'{"ratio":1e400}', "ratio", "too big"),
        (b'{"ratio":' + b"9" * 400 + b"}", "ratio", "too big"),
        (b'{"ratio":"1.5"}', "ratio", "a string where"),
        (b'{"ok":1}', "ok", "an integer where"),
        (b'{"name":7}', "name", "an integer where the column has a string"),
        (b'{"point":[1]}', "point", "an array where the column has an object"),
        (b'{"point":{"x":"1"}}', "point.x", "a string where"),
        (b'{"points":[{"x":1},{"names":["a",1]}]}', "points.element.names.element", "an integer where"),
        (b'{"matrix":[[1],[true]]}', "matrix.element.element", "a boolean where"),
        (b'{"id":1,"id":1}', "id", "is there twice"),
        (b'{"id":1,"\\u0069d":2}', "id", "is there twice"),
        (b'{"point":{"y":null,"y":null}}', "y", "is there twice"),
        (b'{"ID":1}', "ID", "ID differs only in case from column id"),
        (b'{"point":{"X":1}}', "point.X", "X differs only in case from column x"),
        (b'{"":1}', "", "an empty key"),
        (b'{"_kafka_offset":1}', "_kafka_offset", "Sluice's own"),
        (b'{"_Ingested_At":"x"}', "_Ingested_At", "Sluice's own"),
        (b'{"_1h":1}', "_1h", "_1h and column 1h have one name in the table's files, _1h"),
        (b'{"' + b"k" * 256 + b'":1}', "k" * 254 + "\u2026", "a key of 256 bytes cannot name a column: 255"),
    ],
)
def test_a_value_that_does_not_fit_names_its_field(value: bytes, field: str, error: str) -> None:
    """No value is changed to fit: its record is a bad value with the path of the field."""
    (bad,) = only(value, SCHEMA.append(pa.field("1h", pa.int64()))).unread
    assert (bad.index, bad.field) == (0, field)
    assert error in bad.error


@pytest.mark.parametrize(
    "value",
    [
        b'{"price":"' + b"9" * 10**6 + b'"}',
        b'{"price":' + b"9" * 10**6 + b"}",
        b'{"' + b"k" * 10**6 + b'":1,"' + b"k" * 10**6 + b'":2}',
        b'{"' + b"k" * 10**6 + b'":1}',
        b'{"tags":{"' + b"k" * 10**6 + b'":"x"}}',
    ],
    ids=["decimal text", "decimal", "key twice", "new key", "map key"],
)
def test_a_bad_value_says_little_of_a_large_record(value: bytes) -> None:
    """The record is kept as it came: what is said about it is no second copy."""
    tags = pa.map_(pa.string(), pa.int64())
    schema = pa.schema([("id", pa.int64()), ("price", pa.decimal128(9, 2)), ("tags", tags)])
    (bad,) = only(value, schema).unread
    assert len(bad.error) < 200
    assert len(bad.field or "") <= 260


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-02-29T12:00:00Z", datetime(2024, 2, 29, 12, tzinfo=UTC)),
        ("2024-02-29T12:00:00+05:30", datetime(2024, 2, 29, 6, 30, tzinfo=UTC)),
        ("2024-02-29 12:00-0100", datetime(2024, 2, 29, 13, tzinfo=UTC)),
        ("2024-02-29T12:00:00.000001Z", datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC)),
        ("3000-01-01T00:00:00Z", datetime(3000, 1, 1, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59:59.999999Z", datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
    ],
)
def test_times_are_read_to_the_microsecond(text: str, expected: datetime) -> None:
    """A time with a zone designator is its instant, in a column, in a struct and in a list of structs."""
    value = f'{{"at":"{text}","point":{{"at":"{text}"}},"points":[{{"at":"{text}"}},null]}}'.encode()
    decoded = only(value)
    assert decoded.rows is None
    assert values_of(decoded, "at")[0] == expected
    assert values_of(decoded, "point")[0]["at"] == expected
    assert values_of(decoded, "points")[0][0]["at"] == expected


@pytest.mark.parametrize(
    "text",
    [
        "2024-02-29",
        "2024-02-29T12:00:00",
        "2023-02-29T12:00:00Z",
        "2024-02-29T24:00:00Z",
        "2016-12-31T23:59:60Z",
        "2024-02-29T12:00:00.0000001Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "2024-02-29T12:00:00+24:00",
        "20240229T120000Z",
        "2024-02-29t12:00:00z",
        "2024-02-29T12:00:00 Z",
        "1709208000",
        "",
    ],
)
@pytest.mark.parametrize(
    "shape", ['{{"at":"{}"}}', '{{"point":{{"at":"{}"}}}}', '{{"points":[null,{{"at":"{}"}}]}}']
)
def test_times_that_cannot_be_kept_exactly_are_refused(text: str, shape: str) -> None:
    """No zone is guessed, no digit cut, no day rolled over, no year beyond what can be shown."""
    (bad,) = only(shape.format(text).encode()).unread
    assert bad.field is not None
    assert bad.field.endswith("at")
    assert "ISO 8601" in bad.error or "`fit: truncate`" in bad.error


def test_numbers_at_the_edges_are_exact() -> None:
    """Longs to both ends, doubles as their nearest double, minus zero and denormals kept."""
    decoded = only(b'{"id":-9223372036854775808,"matrix":[[-0.0,4.9e-324,1e-400,0.1,9007199254740993.0,7]]}')
    assert decoded.rows is None
    assert values_of(decoded, "id")[0] == -(2**63)
    numbers = values_of(decoded, "matrix")[0][0]
    assert list(map(repr, numbers)) == ["-0.0", "5e-324", "0.0", "0.1", "9007199254740992.0", "7.0"]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
@pytest.mark.parametrize("text", [b"0e999", b"-0E+999", b"0.00e123456789"])
def test_zero_is_zero_whatever_its_exponent(text: bytes, kind: pa.DataType) -> None:
    """An exponent past all doubles says nothing of it, and a neighbour stays right."""
    schema = pa.schema([("id", pa.int64()), ("x", kind)])
    decoded = only(b'{"x":%b}' % text, schema)
    assert (values_of(decoded, "x"), decoded.unread) == ([0.0, None], ())


@pytest.mark.parametrize(
    ("kind", "held", "rounded"),
    [
        (pa.float64(), ["9007199254740992", "-9007199254740994", "9007199254740993.5", "1e300"], 2**53 + 1),
        (pa.float64(), ["100000000000000000000", "18014398509481984"], 10**20 + 1),
        (pa.float64(), ["7"], 10**200 + 1),
        (pa.float64(), ["7"], 2**53 + 1),
        (pa.float32(), ["7"], 2**24 + 1),
        (pa.float32(), ["16777216", "-16777218", "16777217.5"], 2**24 + 1),
    ],
)
def test_an_integer_that_would_be_rounded_is_a_bad_value(
    kind: pa.DataType, held: list[str], rounded: int
) -> None:
    """In whatever company it comes and at whatever depth; what the column holds, and fractions, are rows."""
    schema = pa.schema([pa.field("x", kind), pa.field("list", pa.list_(kind))])
    good = [f'{{"x":{literal}}}'.encode() for literal in held]
    for spoiled in (b'{"x":%d}' % rounded, b'{"list":[0.5,%d]}' % -rounded):
        decoded = decode_chunk([*good, spoiled, *good], schema)
        (bad,) = decoded.unread
        assert bad.field in {"x", "list.element"}
        assert "cannot hold exactly" in bad.error
        assert values_of(decoded, "x") == 2 * [pa.scalar(float(text), kind).as_py() for text in held]


def test_text_is_kept_whole() -> None:
    """Escapes, astral characters, NUL and long strings come out as they were meant."""
    text = "x" * 70_000
    decoded = only(b'{"name":"\\ud83d\\ude00\\u0000\\/\\n\xc3\xa9' + text.encode() + b'"}')
    assert values_of(decoded, "name")[0] == "😀\0/\né" + text


def test_blanks_around_and_inside_do_not_matter() -> None:
    """Pretty-printed records and blanks around them are records like others."""
    values = [b' {"id":1}\n', b'{\n  "id":\r\n2\n}', b'\t{"id":3}']
    decoded = decode_chunk(values, SCHEMA)
    assert (decoded.rows, values_of(decoded, "id")) == (None, [1, 2, 3])


def test_a_neighbour_cannot_be_paired_away() -> None:
    """Two objects in one value and none in the next are two bad values, not two rows."""
    decoded = decode_chunk([b'{"id":1}{"id":2}', b"", b'{"id":3}'], SCHEMA)
    assert [bad.index for bad in decoded.unread] == [0, 1]
    assert (decoded.rows, values_of(decoded, "id")) == ([2], [3])


def test_fields_that_say_nothing_are_passed_over() -> None:
    """Unknown fields with nulls, empty lists and empty objects need no column, whatever their name."""
    value = b'{"id":5,"new":null,"":[],"ID":{},"_kafka_key":[null,{"a":[]}],"point":{"x":1,"y":{"z":null}}}'
    decoded = only(value)
    assert (decoded.rows, decoded.new_fields) == (None, None)
    assert values_of(decoded, "id")[0] == 5
    assert values_of(decoded, "point")[0] == {"x": 1, "at": None, "names": None}


@pytest.mark.parametrize(
    "value",
    [b'{"new":1}', b'{"point":{"new":"x"}}', b'{"points":[{},{"new":[{"a":false}]}]}', b'{"new":1,"ID":2}'],
)
@pytest.mark.parametrize("neighbour", [GOOD, b"oops"])
def test_new_fields_are_reported(value: bytes, neighbour: bytes) -> None:
    """A field with a value and no column is reported at any depth, beside bad records too."""
    decoded = decode_chunk([neighbour, value], SCHEMA)
    assert decoded.new_fields is not None
    assert decoded.table.num_rows == 0


def test_many_bad_records_between_good_ones() -> None:
    """Across blocks, indices are those of the chunk and order is kept."""
    values = [b"oops" if i % 97 == 0 else b'{"id":%d}' % i for i in range(2000)]
    decoded = decode_chunk(values, SCHEMA)
    assert [bad.index for bad in decoded.unread] == list(range(0, 2000, 97))
    assert decoded.rows == values_of(decoded, "id") == [i for i in range(2000) if i % 97]


def test_deep_nesting_up_to_the_limit_is_read() -> None:
    """50 levels in a field that says nothing are no reason to refuse a record."""
    assert only(b'{"deep":' + b"[" * 49 + b"]" * 49 + b', "id":1}').rows is None


def test_the_deepest_row_can_be_read_from_its_file() -> None:
    """Parquet's reader opens no file with a column that is too deep for it: no record makes one."""
    lists = MAX_NESTING - 1
    kind: pa.DataType = pa.int64()
    for _ in range(lists):
        kind = pa.list_(kind)
    decoded = decode_chunk(
        [b'{"deep":' + b"[" * lists + b"1" + b"]" * lists + b"}"], pa.schema({"deep": kind})
    )
    assert decoded.unread == ()
    file = io.BytesIO()
    pq.write_table(decoded.table, file)
    assert pq.read_table(file).equals(decoded.table)


def test_brackets_in_strings_do_not_nest() -> None:
    """Only structure counts towards nesting, also beside escaped quotes and backslashes."""
    text = b"[[{" * 500 + b'\\"' + b"[[{" * 500 + b"\\\\"
    decoded = only(b'{"name":"' + text + b'"}')
    assert decoded.rows is None


@pytest.mark.parametrize(
    "value",
    [
        b'{"id":1,"id":1}',
        b'{"id":1.0}',
        b'{"id":9223372036854775808}',
        b'{"ratio":NaN}',
        b'{"ratio":1e400}',
        b'{"ratio":' + b"9" * 400 + b"}",
        b'{"matrix":[[NaN]]}',
        b'{"name":"\xff"}',
        b'{"name":"\\ud800"}',
        b'{"at":"2024-01-01T00:00:00"}',
        b'{"at":"0000-01-01T00:00:00Z"}',
        b'{"point":{"at":"2024-01-01"}}',
        b"null",
        b"",
        b'{"id":1}{"id":2}',
    ],
)
def test_the_fast_way_refuses_what_it_cannot_keep(value: bytes) -> None:
    """The guards around Arrow's reader hold with the installed version of it."""
    assert READ_AS is not None
    assert read_chunk([GOOD, value], SCHEMA, READ_AS) is None


def test_a_required_column_is_not_filled_up() -> None:
    """In a table made by others a column may be required: a record without it is a bad value."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("point", POINT)])
    decoded = decode_chunk([b'{"id":1}', b'{"point":{}}'], schema)
    (bad,) = decoded.unread
    assert (decoded.rows, bad.field, bad.error) == ([0], "id", "the column is required")
