"""What is worth declaring before the first batch decides."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_jobs.formats.json.infer import observe
from spark_jobs.schema.iceberg_types import declared_fields, iceberg_type, type_text
from spark_jobs.schema.inference import Field, choose_types
from spark_jobs.schema.proposals import propose

AT = "2026-11-22T10:00:00Z"
UUID = "6f9619ff-8b86-d011-b42d-00cf4fc964f"


def proposed(values: list[Any], declared: tuple[Field, ...] = ()) -> dict[str, str]:
    """The columns proposed for records with these values of one field ``f``, as ``columns:`` takes them."""
    evidence = observe([json.dumps({"f": value}).encode() for value in values])
    found, _ = propose(choose_types(evidence, declared), evidence)
    return {each.name: type_text(iceberg_type(each.type)) for each in found}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([{f"key {n}": "red"} for n in range(12)], "map<string, string>"),
        ([{f"k{n}": n, f"k{n + 1}": 1.5} for n in range(30)], "map<string, double>"),
        ([{f"{UUID}{n}": {"n": 1}} for n in range(3)], "map<string, struct<n: long>>"),
        ([{"2024": 1, "2025": 2, "2026": None}], "map<string, long>"),
        ([[{f"k{n}": AT}] for n in range(12)], "list<map<string, timestamptz>>"),
        (
            [{"id": 1, "tags": {f"k{n}": "a"}} for n in range(12)],
            "struct<id: long, tags: map<string, string>>",
        ),
        ([1 << 64], "decimal(38, 0)"),
        ([1, 1 << 64, None], "decimal(38, 0)"),
        ([{"a": 1, "b": 1 << 64}], "struct<a: long, b: decimal(38, 0)>"),
    ],
)
def test_keys_that_are_data_and_integers_past_64_bits_are_proposed(values: list[Any], expected: str) -> None:
    """Each proposal is one column with the type that would keep every value seen."""
    assert proposed(values) == {"f": expected}


@pytest.mark.parametrize(
    "values",
    [
        [1, 2],
        [1 << 64, "a"],
        [{f"key_{n}": "a" for n in range(40)}] * 3,
        [{"a": 1, "b": 2, "c": 3}],
        [{f"k{n}": n if n % 2 else "a"} for n in range(12)],
        [{f"k{n}": "a"} for n in range(9)],
        [{"1": 1, "2": 2}],
        [None],
    ],
)
def test_what_the_first_batch_does_well_is_left_to_it(values: list[Any]) -> None:
    """Wide objects, values of several kinds and few keys are structs as before."""
    assert proposed(values) == {}


def test_a_declared_column_is_not_proposed_again() -> None:
    """Who has pasted the proposal is not told it once more."""
    values = [{f"key {n}": "red"} for n in range(12)]
    assert proposed(values, declared_fields(proposed(values))) == {}


@pytest.mark.parametrize(
    ("records", "term"),
    [
        ([{"id": 1, "seen": None, "created_at": AT}] * 9 + [{"id": 2}], "created_at"),
        ([{"created_at": AT}, {"id": 2}], "_kafka_timestamp"),
        ([{"created at": AT}], "_kafka_timestamp"),
        ([], None),
    ],
)
def test_a_time_that_nearly_all_records_have_partitions(records: list[Any], term: str | None) -> None:
    """Else Kafka's own time does; without records nothing is known."""
    evidence = observe([json.dumps(record).encode() for record in records])
    assert propose(choose_types(evidence), evidence)[1] == term
