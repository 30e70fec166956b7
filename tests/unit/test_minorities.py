"""A person is told when few values decided the type of a column, or lost to it."""

from __future__ import annotations

import pytest

from spark_jobs.config.columns import GROWTH, Growth, NewFields
from spark_jobs.formats.json.infer import observe
from spark_jobs.schema.iceberg_types import declared_fields
from spark_jobs.schema.inference import choose_types
from spark_jobs.schema.proposals import column_notes, impossible

BIG = "integer past 64 bits (1.8446744073709552e+19 at 2:0)"


def told(*literals: str, growth: Growth = GROWTH) -> list[str]:
    """What is said of records with one field ``f`` each."""
    evidence = observe([f'{{"f":{literal}}}'.encode() for literal in literals], partition=2)
    columns = choose_types(evidence, max_columns=growth.max_columns)
    return list(column_notes(columns, (), evidence, growth))


@pytest.mark.parametrize(
    ("literals", "sentences"),
    [
        (["1", "2"], []),
        (["1", "2.5", "1.5"], []),
        (["1.5", "null"], []),
        (['"a"', '"b"'], []),
        (
            ["9007199254740993", "1.5", "9007199254740995"],
            ["f: long; of 3 values 1 number with a fraction or exponent (1.5 at 2:1), a dead letter"],
        ),
        (
            ["1", "2", "1.5"],
            [
                (
                    "f: double because of 1 number with a fraction or exponent (1.5 at 2:2);"
                    " other values are integers"
                )
            ],
        ),
        (
            ["1.5", "9007199254740993", "2.5", "9007199254740995", "3.5"],
            [
                (
                    "f: double; of 5 values 2 integers no double is equal to (9007199254740993 at 2:1),"
                    " dead letters"
                )
            ],
        ),
        (
            ["9007199254740993", "1.5", "2.5"],
            [
                (
                    "f: double; of 3 values 1 integer no double is equal to (9007199254740993 at 2:0),"
                    " a dead letter"
                )
            ],
        ),
        (
            ['"2024-01-01T00:00:00Z"', '"n/a"'],
            ['f: string because of "n/a" at 2:1; values before it are times with a zone'],
        ),
        (
            ['"x"', '"y"', '"z"', "1", "true", "2"],
            ["f: string; of 6 values 2 integers (1 at 2:3), 1 boolean (true at 2:4), dead letters"],
        ),
        (
            ["18446744073709551616"],
            [
                (
                    "f: no column; 1 integer past 64 bits (1.8446744073709552e+19 at 2:0), a dead letter:"
                    ' for up to 38 digits, declare columns: {f: "decimal(38,0)"}'
                )
            ],
        ),
        (
            ['{"a":[1,18446744073709551616,null],"b":18446744073709551616}'],
            [
                f"f.a.element: long; of 2 values 1 {BIG}, a dead letter",
                f"f.b: no column; 1 {BIG}, a dead letter",
            ],
        ),
        (["[18446744073709551616]"], [f"f.element: no column; 1 {BIG}, a dead letter"]),
        (
            ['"x"', '"y"', '{"b":18446744073709551616}'],
            [
                'f: string; of 3 values 1 object ({"b":1.8446744073709552e+19} at 2:2), a dead letter',
            ],
        ),
        (
            ['{"a":[1,2,"x"]}', "7", '{"a":[3]}'],
            [
                "f: struct; of 3 values 1 integer (7 at 2:1), a dead letter",
                'f.a.element: long; of 4 values 1 string ("x" at 2:0), a dead letter',
            ],
        ),
    ],
)
def test_what_is_told_of_a_new_column(literals: list[str], sentences: list[str]) -> None:
    """How many values of which kind, the first of them with its place, and what becomes of them."""
    assert told(*literals) == sentences


def test_a_column_that_is_missing_for_want_of_room_is_not_told_as_one_of_large_integers() -> None:
    """Integers within 64 bits would have made one: declaring a decimal is no answer."""
    assert told("18446744073709551616", "1", growth=Growth(max_columns=0)) == []


def test_where_new_fields_are_ignored_large_integers_are_left_out() -> None:
    """Their records are rows: no dead letter is announced that there will not be."""
    (sentence,) = told("18446744073709551616", "null", growth=Growth(NewFields.IGNORE))
    assert sentence.startswith(
        f"f: no column; 1 {BIG}, left out: for up to 38 digits, declare columns: {{f: "
    )


@pytest.mark.parametrize(
    ("type_name", "literals", "is_impossible"),
    [
        ("long", ['"1"', '"2"'], True),
        ("long", ['"1"', "2"], False),
        ("long", ['"1"', "null"], False),
        ("int", ["18446744073709551616"], False),
        ("double", ["18446744073709551616"], False),
        ("decimal(9, 2)", ['"1.5"'], False),
        ("decimal(9, 2)", ["true"], True),
        ("date", ['"no date"'], False),
        ("date", ["1"], True),
        ("timestamptz", ['"no time"', '"2026-01-01T00:00:00Z"'], False),
        ("timestamptz", ["1"], True),
        ("list<string>", ['"a"'], True),
        ("struct<a: long>", ["[]"], True),
        ("map<string, long>", ["{}"], False),
    ],
)
def test_only_what_surely_fits_no_record_is_impossible(type_name, literals, is_impossible):
    """By kind alone: whether a text is a date, or a number is small enough, the records decide."""
    evidence = observe([f'{{"f":{literal}}}'.encode() for literal in literals])
    assert any(impossible(declared_fields({"f": type_name}), evidence, GROWTH)) is is_impossible


def test_a_record_without_the_declared_column_fits_it():
    """Nothing is impossible while a record may leave the column out."""
    evidence = observe([b'{"f": "a"}', b'{"g": 1}'])
    assert not list(impossible(declared_fields({"f": "long"}), evidence, GROWTH))


def test_integers_past_64_bits_in_every_record_leave_no_row_until_their_column_is_declared():
    """Unless fields without a column are ignored, or a record leaves it out, or has null."""
    past = b'{"f": 18446744073709551616, "g": 1}'
    evidence = observe([past] * 2)
    (sentence,) = impossible((), evidence, GROWTH)
    assert sentence.startswith("f has no type for 2 integers past 64 bits (")
    assert sentence.endswith('): for up to 38 digits, declare columns: {f: "decimal(38,0)"}')
    assert not list(impossible((), evidence, Growth(NewFields.IGNORE)))
    assert not list(impossible(declared_fields({"f": "decimal(38,0)"}), evidence, GROWTH))
    for other in (b'{"g": 1}', b'{"f": null}'):
        assert not list(impossible((), observe([past, other]), GROWTH))
