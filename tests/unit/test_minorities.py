"""A person is told when few values decided the type of a column, or lost to it."""

from __future__ import annotations

import pytest

from spark_jobs.records.infer import observe
from spark_jobs.schema.inference import choose_types
from spark_jobs.schema.minorities import told_of_columns


def told(*literals: str) -> list[str]:
    """What is said of records with one field ``f`` each."""
    evidence = observe([f'{{"f":{literal}}}'.encode() for literal in literals], partition=2)
    return list(told_of_columns(choose_types(evidence), (), evidence))


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
                    " integers are beside it"
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
                    ' declare columns: {f: "decimal(38,0)"}'
                )
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
