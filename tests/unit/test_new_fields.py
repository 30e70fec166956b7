"""What becomes of fields that a table has no column for: bounded, counted by name, in linear time."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.config.columns import Growth, NewFields
from spark_jobs.formats.json.block import decode_chunk, decode_in_python
from spark_jobs.formats.json.infer import observe
from spark_jobs.protocol.batch import MAX_IGNORED_NAMES, OTHERS, add_ignored
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.inference import Field, Primitive, choose_types, count_columns, evolve
from spark_jobs.schema.writer_schema import ReadValues

LONG = Primitive.LONG
POINT = pa.struct([("x", pa.int64())])
COLUMNS = pa.schema([("id", pa.int64()), ("p", POINT), ("l", pa.list_(POINT))])
NO_COLUMN = "an integer of more than 64 bits, which no column type holds"


def wide(keys: int, value: str = "1") -> bytes:
    """A record of so many fields."""
    return ("{" + ",".join(f'"Key{n}":{value}' for n in range(keys)) + "}").encode()


def calls(work: Callable[[], Any]) -> int:
    """How many functions, Python's and C's, are called."""
    counted = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted


@pytest.mark.parametrize("value", ["1", '{"a":1,"b":{"c":[{"d":2}]}}', '{"a":null}'])
def test_the_work_of_new_columns_grows_with_the_number_of_keys(value: str) -> None:
    """Four times the keys are four times the calls, whether they become columns, structs or nothing."""
    few, many = (observe([wide(keys, value)]) for keys in (200, 800))
    known = (Field("id", LONG),)
    assert calls(lambda: evolve(known, many)) < 4.5 * calls(lambda: evolve(known, few))
    bounded = [calls(lambda e=e: evolve(known, e, max_columns=50)) for e in (few, many)]  # type: ignore[misc]
    assert bounded[1] < 4.5 * bounded[0]


def test_a_table_gets_the_most_frequent_fields_up_to_its_bound() -> None:
    """Those inside structs count; a declared or present column is never taken away."""
    evidence = observe([b'{"a":1,"s":{"x":1,"y":2},"b":1}', b'{"s":{"y":3},"b":1,"c":1}', b'{"b":2}'])
    for bound in range(8):
        chosen = choose_types(evidence, max_columns=bound)
        assert count_columns(chosen) == min(bound, 6)
    assert [field.name for field in choose_types(evidence, max_columns=1)] == ["b"]
    declared = (Field("d", LONG), Field("e", LONG))
    assert choose_types(evidence, declared, max_columns=1) == declared
    assert evolve(declared, evidence, max_columns=2) == ()
    assert [new.path for new in evolve(declared, evidence, max_columns=3)] == [("b",)]


@pytest.mark.parametrize("max_fields", [1, 3, 40, 10_000])
def test_evidence_is_bounded_wherever_it_is_gathered(max_fields: int) -> None:
    """Of one record with thousands of keys, of many, and at any depth."""
    values = [wide(3000), b'{"deep":[{"a":{"b":1,"c":2}}]}', wide(10)]
    seen = observe(values, max_fields=max_fields)
    merged = Evidence()
    for value in values:
        merged = merged.merge(observe([value])).within(max_fields)
    for evidence in (seen, merged):
        assert len(evidence.fields) <= max_fields
        assert evidence.to_json().count('"order"') <= max_fields
        assert max_fields < 10_000 or len(evidence.fields) == 3001


@pytest.mark.parametrize(
    ("growth", "why"),
    [
        (Growth(NewFields.DEAD_LETTER), "accepts no new ones"),
        (Growth(max_columns=5), "schema.max_columns: 5"),
        (Growth(max_columns=1), "schema.max_columns: 1"),
        (Growth(max_columns=9).ended(), "schema.max_columns: 9"),
    ],
)
@pytest.mark.parametrize("spoiled", [False, True])
def test_a_record_with_a_new_field_is_a_letter_that_names_it(
    growth: Growth, why: str, *, spoiled: bool
) -> None:
    """At the bound and where none are wanted; the others are rows, and columns there are go on."""
    values = [b'{"id":1,"p":{"x":1}}', b'{"new":1}', b'{"p":{"y":2}}', b'{"l":[{"z":[3]}]}', b'{"none":[]}']
    decoded = decode_chunk([*values, b"oops"] if spoiled else values, COLUMNS, growth)
    assert decoded.new_fields is None
    assert decoded.table.column("id").to_pylist() == [1, None]
    assert [bad.field for bad in decoded.unread if bad.field] == ["new", "p.y", "l.element.z"]
    assert all(why in bad.error for bad in decoded.unread if bad.field)


def test_below_the_bound_fields_are_reported() -> None:
    """One more column is one more column, not fewer."""
    assert decode_chunk([b'{"new":1}'], COLUMNS, Growth(max_columns=6)).new_fields is not None


@pytest.mark.parametrize("spoiler", [None, b"oops", b'{"new":"of another kind"}'])
def test_ignored_fields_are_counted_by_name_and_their_records_are_rows(spoiler: bytes | None) -> None:
    """At any depth, whichever way the record is read; what says nothing is not counted."""
    values = [
        b'{"id":1,"new":1,"p":{"x":1,"y":2}}',
        b'{"id":2,"new":2,"l":[{"z":[3]},{"x":4}],"none":[null]}',
        b'{"id":3,"new":null}',
        *([] if spoiler is None else [spoiler]),
    ]
    decoded = decode_chunk(values, COLUMNS, Growth(NewFields.IGNORE))
    assert decoded.new_fields is None
    assert decoded.table.slice(0, 3).to_pylist() == [
        {"id": 1, "p": {"x": 1}, "l": None},
        {"id": 2, "p": None, "l": [{"x": None}, {"x": 4}]},
        {"id": 3, "p": None, "l": None},
    ]
    news = 3 if spoiler and spoiler.startswith(b"{") else 2
    assert dict(decoded.ignored) == {"new": news, "p.y": 1, "l.element.z": 1}
    assert len(decoded.unread) == (spoiler == b"oops")


@pytest.mark.parametrize("decode", [decode_chunk, partial(decode_in_python, elsewhere=frozenset())])
@pytest.mark.parametrize("beside", [b"[null,4]", b"3"], ids=["of its kind", "of another kind"])
def test_an_ignored_field_is_counted_where_it_says_something(
    decode: Callable[..., ReadValues], beside: bytes
) -> None:
    """Whatever other records have there, and whichever way they are read."""
    values = [
        b'{"id":1,"new":[]}',
        b'{"id":2,"new":%s}' % beside,
        b'{"l":[{"z":{"a":[]}},{"z":{"a":[5]}},null]}',
    ]
    decoded = decode(values, COLUMNS, Growth(NewFields.IGNORE))
    assert decoded.table.num_rows == 3
    assert decoded.ignored == {"new": 1, "l.element.z": 1}


@pytest.mark.parametrize("number", [b"1", b"1e400"])
def test_a_record_is_a_row_whatever_is_ignored(number: bytes) -> None:
    """A number past the largest double beside an escape too, whichever way the record is read."""
    value = b'{"id":1,"new":' + number + b',"t\\u0065xt":2}'
    decoded = decode_chunk([value, b"oops"], COLUMNS, Growth(NewFields.IGNORE))
    assert decoded.table.column("id").to_pylist() == [1]


def test_names_of_ignored_fields_are_bounded() -> None:
    """Whoever sends a thousand names gets a hundred and one numbers, and none is lost in the sum."""
    counted = add_ignored({}, {f"{'x' * 500}{n}" if n % 2 else str(n): 2 for n in range(1000)})
    assert len(counted) <= MAX_IGNORED_NAMES + 1
    assert OTHERS in counted
    assert sum(counted.values()) == 2000
    assert max(map(len, counted)) == 100


@pytest.mark.parametrize(
    ("record", "field", "why"),
    [
        (
            {"b": 10**20},
            "b",
            'an integer of more than 64 bits: declare columns: {b: "decimal(38,0)"}',
        ),
        (
            {"b": -(10**38) + 1},
            "b",
            'an integer of more than 64 bits: declare columns: {b: "decimal(38,0)"}',
        ),
        ({"b": 10**38}, "b", NO_COLUMN),
        ({"b": 10**50}, "b", NO_COLUMN),
        ({"p": {"b": 10**20}}, "p.b", NO_COLUMN),
        ({"b": [None, 10**20]}, "b", NO_COLUMN),
        ({"b": {"x": [10**20], "y": None}}, "b", NO_COLUMN),
        (
            {"b": [1, 10**20]},
            "b",
            "it cannot have a column: its name is taken, or schema.max_columns: 9 is reached",
        ),
    ],
)
def test_an_integer_past_64_bits_is_told_to_be_declared_where_that_helps(
    record: dict[str, Any], field: str, why: str
) -> None:
    """At the top level, of up to 38 digits; deeper, or longer, there is no column for it."""
    (bad,) = decode_chunk([json.dumps(record).encode()], COLUMNS, Growth(max_columns=9).ended()).unread
    assert (bad.field, bad.error) == (field, why)
