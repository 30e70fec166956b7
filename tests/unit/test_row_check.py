"""Audit's comparison finds a wrong value of every kind, and takes none for wrong that is right."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema

from spark_jobs.audit.findings import RoundedColumn, merged
from spark_jobs.audit.row_check import RowCheck
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.protocol.work import LAYOUTS, layout_named
from spark_jobs.records.reading_plan import JSON
from spark_jobs.records.row_maker import RowMaker
from spark_jobs.records.shape import Origin
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.iceberg_types import dead_letter_schema, with_metadata_columns

ORIGIN = Origin("orders", 2, 1_700_000_000_000_000)
METADATA = arrow_schema(with_metadata_columns(Schema()))
TIMESTAMPTZ = pa.timestamp("us", "UTC")
POINTS = pa.list_(pa.struct([("x", pa.int64()), ("names", pa.list_(pa.string()))]))
NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)
ID = uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")


def drained(schema: pa.Schema, chunk: Chunk) -> pa.Table:
    """The rows as a drain makes them."""
    return RowMaker(JSON.decoder, ORIGIN, "b", schema, arrow_schema(dead_letter_schema())).make(chunk).rows


def differing(schema: pa.Schema, chunk: Chunk, rows: pa.Table) -> list[int]:
    """The offsets that the check finds."""
    return RowCheck(JSON.plain, ORIGIN, schema).compare(chunk, rows).differing.tolist()


def planted(rows: pa.Table, name: str, value: Any) -> pa.Table:
    """The same with another value in the second row."""
    column = rows.column(name).to_pylist()
    column[1] = value
    position = rows.column_names.index(name)
    field = rows.schema.field(name)
    return rows.set_column(position, field, pa.array(column, field.type))


def records(*values: str | None) -> Chunk:
    """Records from offset 10 on, with keys and headers."""
    count = len(values)
    encoded = [None if value is None else value.encode() for value in values]
    return Chunk(3, [*range(10, 10 + count)], [5] * count, [b"k"] * count, encoded, [[("h", b"1")]] * count)


@pytest.mark.parametrize(
    ("kind", "text", "wrong"),
    [
        (pa.int64(), "9007199254740993", 9007199254740992),
        (pa.int32(), "-1", 1),
        (pa.float64(), "0.1", 0.1 + 2**-56),
        (pa.float64(), "0.30000000000000004", 0.3),
        (pa.float64(), "9007199254740993.0", 9007199254740994.0),
        (pa.float32(), "0.1", float(np.nextafter(np.float32(0.1), np.float32(1)))),
        (pa.bool_(), "true", False),
        (pa.string(), '"a"', "a "),
        (pa.string(), '"1.0"', "1"),
        (pa.string(), '"\\u00e9"', "e"),
        (pa.string(), '""', None),
        (pa.binary(), '"ab"', b"aB"),
        (pa.binary(2), '"ab"', b"ba"),
        (TIMESTAMPTZ, '"2024-02-29T13:00:00+01:00"', NOON.replace(hour=13)),
        (TIMESTAMPTZ, '"2024-02-29T12:00:00.000001Z"', NOON),
        (pa.timestamp("us"), '"2024-02-29T12:00"', datetime(2024, 2, 29, 11)),  # noqa: DTZ001
        (pa.date32(), '"2024-02-29"', date(2024, 3, 1)),
        (pa.time64("us"), '"12:00:00.000001"', time(12)),
        (pa.decimal128(20, 2), "1234567890123456.78", Decimal("1234567890123456.77")),
        (pa.uuid(), f'"{ID}"', uuid.UUID(int=1).bytes),
        (pa.map_(pa.string(), pa.int64()), '{"a":1}', [("a", 2)]),
        (pa.map_(pa.string(), pa.int64()), '{"a":1}', [("b", 1)]),
        (POINTS, '[{"x":1,"names":["a","b"]},null]', [{"x": 1, "names": ["a", "c"]}, None]),
        (POINTS, '[{"x":1,"names":["a"]}]', [{"x": 1, "names": ["a"]}, {"x": 1, "names": ["a"]}]),
        (POINTS, '[{"x":1}]', [{"x": 2, "names": None}]),
        (pa.struct([("a", pa.struct([("b", pa.float64())]))]), '{"a":{"b":1e-7}}', {"a": {"b": 1.1e-7}}),
    ],
)
def test_a_wrong_value_of_each_kind_is_found(kind: pa.DataType, text: str, wrong: Any) -> None:
    """One step beside what was written is a difference, nothing is, and neighbours are left in peace."""
    schema = pa.schema([("c", kind), *METADATA])
    chunk = records(*[f'{{"c":{text}}}'] * 3)
    rows = drained(schema, chunk)
    assert rows.num_rows == 3
    assert differing(schema, chunk, rows) == []
    assert differing(schema, chunk, planted(rows, "c", wrong)) == [11]
    assert differing(schema, chunk, planted(rows, "c", None)) == [11]
    nothing = records(text and '{"c":null}', "{}", '{"c":null}')
    assert differing(schema, nothing, rows) == [10, 11, 12]


@pytest.mark.parametrize(("kind", "limit"), [(pa.float64(), 2**53), (pa.float32(), 2**24)])
def test_an_integer_that_was_rounded_is_told_from_a_difference(kind: pa.DataType, limit: int) -> None:
    """A table of an earlier version has the nearest double; what else is held instead is a wrong value."""
    schema = pa.schema([("c", kind), *METADATA])
    chunk = records(f'{{"c":{limit}}}', '{"c":1}')
    rows = drained(schema, chunk)
    check = RowCheck(JSON.plain, ORIGIN, schema)
    assert not check.compare(chunk, rows).every_rounded.size
    wanted = records(f'{{"c":{limit + 1}}}', '{"c":1}')
    found = check.compare(wanted, rows)
    assert (found.differing.tolist(), found.rounded) == ([], {("c", "long"): [10]})
    found = check.compare(wanted, planted(rows, "c", 2.0))
    assert (found.differing.tolist(), found.every_rounded.tolist()) == ([11], [10])


def test_a_rounded_integer_names_its_column_and_the_type_that_holds_it() -> None:
    """Inside structs, lists and maps too; past 64 bits no long is told to hold it."""
    point = pa.struct([("x", pa.list_(pa.float64()))])
    schema = pa.schema([("p", point), ("m", pa.map_(pa.string(), pa.float64())), *METADATA])
    nearest = records('{"p":{"x":[9007199254740992]}}', '{"m":{"k":1e20}}', '{"m":{"k":1e20}}')
    rows = drained(schema, nearest)
    wanted = records(
        '{"p":{"x":[9007199254740993]}}', '{"m":{"k":100000000000000000001}}', '{"m":{"k":1.0e+20}}'
    )
    found = RowCheck(JSON.plain, ORIGIN, schema).compare(wanted, rows)
    assert found.differing.tolist() == []
    assert {column: rows.tolist() for column, rows in found.rounded.items()} == {
        ("p.x.element", "long"): [10],
        ("m.value", "decimal(38,0)"): [11],
    }
    every = merged(RoundedColumn("id", kind, 1) for kind in ("long", "decimal(38,0)", "long"))
    assert every == (RoundedColumn("id", "decimal(38,0)", 3),)
    said = every[0].mend("orders", layout_named("flat"))
    assert said == "./sluice retype orders id 'decimal(38,0)' --reason '...'"


def test_a_rounded_integer_inside_a_column_names_the_whole_column() -> None:
    """A column of the dotted name would be another one, beside which the field can have none."""
    mend = RoundedColumn("p.x.element", "long", 1).mend("orders", layout_named("flat"))
    assert mend == "a new table for orders declaring p whole: long for p.x.element"


def test_a_rounded_column_that_cannot_be_retyped_is_made_in_a_new_table() -> None:
    """Of a layout that refuses the act, with a declared type where it takes one."""
    said = {name: RoundedColumn("id", "long", 1).mend("o", layout_named(name)) for name in LAYOUTS}
    assert said.pop("flat").startswith("./sluice retype o id 'long'")
    assert said.pop("archive") == "a new table for o"
    assert {*said.values()} == {"a new table for o declaring id whole: long for id"}


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("_kafka_key", "K"),
        ("_kafka_key", None),
        ("_kafka_headers", [{"key": "h", "value": b"2"}]),
        ("_kafka_headers", None),
        ("_kafka_timestamp", datetime(1970, 1, 1, tzinfo=UTC)),
        ("_kafka_topic", "other"),
    ],
)
def test_a_wrong_key_header_or_coordinate_is_found(name: str, wrong: Any) -> None:
    """What stands beside the value is compared as well."""
    schema = pa.schema([("n", pa.int64()), *METADATA])
    chunk = records(*['{"n":1}'] * 3)
    assert differing(schema, chunk, planted(drained(schema, chunk), name, wrong)) == [11]


def test_only_records_that_have_a_row_are_compared() -> None:
    """Dead letters, tombstones and rows that are not there are others' findings, whatever they say."""
    schema = pa.schema([("n", pa.int64()), *METADATA])
    chunk = records('{"n":1}', "oops", None, '{"n":"x","new":1}', '{"n":5}', f'{{"n":{"9" * 9000}}}')
    rows = drained(pa.schema([*schema, ("new", pa.int64())]), chunk).select(schema.names)
    assert rows.column("_kafka_offset").to_pylist() == [10, 14]
    assert differing(schema, chunk, rows) == []
    assert differing(schema, chunk, rows.slice(1)) == []


@pytest.mark.parametrize(
    ("kind", "text", "wrong"),
    [
        (pa.int64(), "1.5", 1),
        (pa.int64(), '"7"', 7),
        (pa.int64(), "99999999999999999999", 2),
        (pa.string(), "1", "1"),
        (pa.string(), "true", "true"),
        (pa.float64(), '"1"', 1.0),
        (pa.float64(), "true", 1.0),
        (pa.float64(), "1e400", float("inf")),
        (pa.bool_(), "1", True),
        (pa.decimal128(9, 2), "1.234", Decimal("1.23")),
        (pa.decimal128(9, 2), "true", Decimal(1)),
        (TIMESTAMPTZ, '"yesterday"', NOON),
        (TIMESTAMPTZ, '"2024-02-29T12:00:00.0000009Z"', NOON),
        (TIMESTAMPTZ, '"2024-02-29T12:00:00"', NOON),
        (pa.date32(), '"20240229"', date(2024, 2, 29)),
        (pa.date32(), '"2024-W09-4"', date(2024, 2, 29)),
        (pa.uuid(), f'"{{{ID}}}"', ID.bytes),
    ],
)
def test_a_row_of_a_record_that_can_be_none_is_found(kind: pa.DataType, text: str, wrong: Any) -> None:
    """A value that does not fit its column is a dead letter: whatever stands there instead was made up."""
    schema = pa.schema([("c", kind), *METADATA])
    chunk = records('{"c":null}', f'{{"c":{text}}}', "{}")
    assert drained(schema, chunk).num_rows == 2
    rows = planted(drained(schema, records(*["{}"] * 3)), "c", wrong)
    assert differing(schema, chunk, rows) == [11]
    kept = RowCheck(JSON.plain, ORIGIN, schema.append(pa.field("_c", kind)), kept=frozenset({"_c"}))
    moved = planted(rows, "c", None).append_column("_c", rows.column("c"))
    assert kept.compare(chunk, moved).differing.tolist() == []


@pytest.mark.parametrize("number", ["9" * 400, "9" * 5000, "1e400"])
def test_no_number_in_a_field_that_is_left_out_spoils_its_row(number: str) -> None:
    """Whatever its size: with ``new_fields: ignore`` the record is a row without it."""
    schema = pa.schema([("c", pa.int64()), *METADATA])
    rows = drained(schema, records('{"c":1}'))
    check = RowCheck(JSON.plain, ORIGIN, schema, ignores_more=True)
    assert check.compare(records(f'{{"c":1,"x":[{number}]}}'), rows).differing.tolist() == []
    assert check.compare(records(f'{{"c":{number}}}'), rows).differing.tolist() == [10]


def test_no_row_is_made_of_what_is_no_object() -> None:
    """One that is there all the same says what nobody wrote."""
    schema = pa.schema([("c", pa.int64()), *METADATA])
    rows = planted(drained(schema, records(*["{}"] * 3)), "c", 1)
    assert differing(schema, records("{}", "not json", "{}"), rows) == [11]


def test_a_value_without_a_column_is_a_difference_in_the_whole_chunk() -> None:
    """Its column was dropped, or a drain lost it; empty values are nothing lost."""
    wide = pa.schema([("n", pa.int64()), ("gone", pa.string()), *METADATA])
    schema = pa.schema([("n", pa.int64()), *METADATA])
    chunk = records('{"n":1}', '{"n":2,"gone":"x"}')
    assert differing(schema, chunk, drained(wide, chunk).select(schema.names)) == [10, 11]
    empty = records('{"n":1}', '{"n":2,"gone":[{"a":null}]}')
    assert differing(schema, empty, drained(schema, empty)) == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.struct([("x", pa.int64())]), "{}"),
        (pa.list_(pa.list_(pa.int64())), "[[]]"),
        (pa.list_(pa.int64()), "[null]"),
    ],
)
def test_what_said_nothing_before_its_column_had_a_type_is_right(kind: pa.DataType, text: str) -> None:
    """Its row holds null; a null where a record says something is wrong."""
    schema = pa.schema([pa.field("c", kind), *METADATA])
    chunk = records('{"c": %s}' % text, '{"c": %s}' % text)  # noqa: UP031  (braces)
    rows = drained(schema, chunk)
    assert differing(schema, chunk, planted(rows, "c", None)) == []
    assert differing(schema, records(None, '{"c": 7}'), rows) != []
