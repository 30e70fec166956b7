"""Suites judged by the installed Great Expectations: what it is given, and what is made of its answers."""

from __future__ import annotations

import os
import time
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from spark_jobs.config import secrets
from spark_jobs.config.suites import LOOKS_AT, Expectation, OnFailure, Suite
from spark_jobs.quality.judge import Judgement, columns_of, judge, mistakes
from spark_jobs.quality.results import FailingRow
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.iceberg_types import with_metadata_columns

if TYPE_CHECKING:
    from pathlib import Path

COUNTRY = StructType(NestedField(20, "country", StringType()))
COLUMNS = (
    ("id", LongType()),
    ("code", StringType()),
    ("price", DoubleType()),
    ("paid", BooleanType()),
    ("amount", DecimalType(9, 2)),
    ("at", TimestamptzType()),
    ("day", DateType()),
    ("customer", COUNTRY),
    ("tags", ListType(21, StringType(), element_required=False)),
)
SCHEMA = with_metadata_columns(
    Schema(*(NestedField(number, name, kind) for number, (name, kind) in enumerate(COLUMNS, start=1)))
)
ROWS = 10


def _rows(**changed: list[Any]) -> pa.Table:
    """Ten rows of partition 3, offsets 100, 102, ..., 118, with other values in the columns given."""
    columns = {
        "id": list(range(ROWS)),
        "code": [f"c{n}" for n in range(ROWS)],
        "price": [n + 0.5 for n in range(ROWS)],
        "paid": [n % 2 == 0 for n in range(ROWS)],
        "amount": [Decimal(n) for n in range(ROWS)],
        "at": [datetime(2026, 1, 1 + n, tzinfo=UTC) for n in range(ROWS)],
        "day": [date(2026, 1, 1 + n) for n in range(ROWS)],
        "customer": [{"country": "NO" if n else "SE"} for n in range(ROWS)],
        "tags": [["a", "b"] for _ in range(ROWS)],
        "_kafka_partition": [3] * ROWS,
        "_kafka_offset": list(range(100, 100 + 2 * ROWS, 2)),
    }
    columns |= changed
    schema = arrow_schema(SCHEMA)
    return pa.table({name: pa.array(v, schema.field(name).type) for name, v in columns.items()})


def _suite(*expectations: Expectation) -> Suite:
    return Suite(name="s", expectations=expectations)


def _judge(name: str, rows: pa.Table | None = None, **kwargs: Any) -> Judgement:
    suite = _suite(Expectation(name, kwargs)).model_copy(update={"on_failure": OnFailure.DEAD_LETTERS})
    rows = _rows() if rows is None else rows
    return judge(suite, rows.select(columns_of([suite], SCHEMA)), SCHEMA)


MET_AND_NOT = [
    ("column_values_to_not_be_null", {"column": "id"}, {"id": [None, *range(1, ROWS)]}, {100}),
    (
        "column_values_to_be_between",
        {"column": "id", "max_value": 9},
        {"id": [2**60, *range(8), None]},
        {100},
    ),
    ("column_values_to_be_unique", {"column": "code"}, {"code": ["a", "a", *"bcdefghi"]}, {100, 102}),
    ("column_values_to_be_in_set", {"column": "paid", "value_set": [True]}, {"paid": [None] * 10}, None),
    ("column_values_to_match_regex", {"column": "code", "regex": "^c"}, {"code": ["x"] + ["c"] * 9}, {100}),
    (
        "column_values_to_be_between",
        {"column": "at", "min_value": "2026-01-01", "max_value": "2026-01-10T00:00:00Z"},
        {"at": [None, datetime(1999, 1, 1, tzinfo=UTC)] + [datetime(2026, 1, 2, tzinfo=UTC)] * 8},
        {102},
    ),
    (
        "column_values_to_be_between",
        {"column": "day", "min_value": "2026-01-01"},
        {"day": [None, date(1999, 1, 1)] + [date(2026, 1, 2)] * 8},
        {102},
    ),
    (
        "column_values_to_be_between",
        {"column": "amount", "min_value": 0},
        {"amount": [Decimal(-1)] * 10},
        None,
    ),
    (
        "column_pair_values_a_to_be_greater_than_b",
        {"column_A": "price", "column_B": "id"},
        {"price": [-1.0] + [99.0] * 9, "id": [*range(9), None]},
        {100, 118},
    ),
    ("compound_columns_to_be_unique", {"column_list": ["id", "code"]}, {"id": [1] * 10}, None),
    (
        "column_values_to_not_be_null",
        {"column": "customer.country"},
        {"customer": [None, {"country": None}] + [{"country": "NO"}] * 8},
        {100, 102},
    ),
    ("column_values_to_match_regex", {"column": "tags", "regex": '^."a"'}, {"tags": [["b"]] * 10}, None),
    ("column_value_lengths_to_be_between", {"column": "code", "max_value": 2}, {"code": ["long"] * 10}, None),
    (
        "column_values_to_not_be_null",
        {"column": "price", "row_condition": "code = 'c1'", "condition_parser": "pandas"},
        {"price": [None] * 10},
        {102},
    ),
]


@pytest.mark.parametrize(("name", "kwargs", "changed", "failing"), MET_AND_NOT)
def test_rows_that_meet_it_and_rows_that_do_not(
    name: str, kwargs: dict[str, Any], changed: dict[str, list[Any]], failing: set[int] | None
) -> None:
    """Met by good rows; of bad ones exactly the failing are told, with coordinates, nulls aside or not."""
    name = f"expect_{name}"
    met = dict(kwargs, value_set=[True, False]) if "value_set" in kwargs else kwargs
    good = _judge(name, **met)
    assert [(each.error, each.is_met) for each in good.result.results] == [(None, True)]
    assert good.rejected == {}
    bad = _judge(name, _rows(**changed), **kwargs)
    (result,) = bad.result.results
    assert result.error is None
    if failing is None and changed.get("paid"):
        assert result.is_met, "a null is not a value out of the set"
        return
    expected = failing or {100 + 2 * n for n in range(ROWS) if name != "expect_compound_columns_to_be_unique"}
    if name == "expect_compound_columns_to_be_unique":
        assert result.is_met, "the codes differ"
        return
    assert not result.is_met
    assert set(bad.rejected[3]) == expected
    assert result.unexpected == len(expected)
    assert {row.offset for row in result.examples} == expected
    assert all(row.partition == 3 for row in result.examples)


def test_whole_numbers_beyond_a_floats_are_not_changed() -> None:
    """2**60 + 1 beside a null is told as it is."""
    rows = _rows(id=[2**60 + 1, *range(8), None])
    (result,) = _judge("expect_column_values_to_be_between", rows, column="id", max_value=9).result.results
    assert result.examples == (FailingRow(3, 100, str(2**60 + 1)),)


@pytest.mark.parametrize("column", ["id", "code", "price", "paid", "amount", "at", "day", "customer", "tags"])
def test_a_null_is_called_null(column: str) -> None:
    """Whatever the column's type is, and however pandas writes its nulls."""
    rows = _rows(**{column: [None] * ROWS})
    (result,) = _judge("expect_column_values_to_not_be_null", rows, column=column).result.results
    assert {row.value for row in result.examples} == {"null"}


def test_figures_have_an_observed_value_and_no_rows() -> None:
    """A mean that is off is told as a number; there is no row to send to the dead letters."""
    judged = _judge("expect_column_mean_to_be_between", column="price", max_value=1)
    (result,) = judged.result.results
    assert (result.is_met, result.observed, result.examples) == (False, "5.0", ())
    assert judged.rejected == {}


@pytest.mark.parametrize(
    ("name", "kwargs", "is_met"),
    [
        ("expect_column_to_exist", {"column": "nowhere"}, False),
        ("expect_column_to_exist", {"column": "id"}, True),
        ("expect_column_values_to_be_of_type", {"column": "id", "type_": "int64"}, True),
        ("expect_table_column_count_to_equal", {"value": len(SCHEMA.fields)}, True),
        ("expect_table_columns_to_match_set", {"column_set": ["id"], "exact_match": False}, True),
        ("expect_table_row_count_to_be_between", {"min_value": 11}, False),
    ],
)
def test_the_tables_columns_are_judged_without_reading_rows(
    name: str, kwargs: dict[str, Any], is_met: bool
) -> None:
    """Names and types are the table's, whatever a batch holds; a count of rows reads coordinates only."""
    suite = _suite(Expectation(name, kwargs))
    assert columns_of([suite], SCHEMA) == ("_kafka_partition", "_kafka_offset")
    (result,) = _judge(name, **kwargs).result.results
    assert (result.error, result.is_met) == (None, is_met)


@pytest.mark.parametrize(
    ("name", "kwargs", "told"),
    [
        ("expect_column_values_to_not_be_null", {"column": "nowhere"}, "nowhere"),
        ("expect_column_values_to_be_between", {"column": "id", "min": 3}, "min"),
        ("expect_column_values_to_be_between", {"column": "code", "min_value": 3}, ""),
        ("expect_column_values_to_match_regex", {"column": "code", "regex": "("}, ""),
    ],
)
def test_what_cannot_be_judged_is_told_and_not_met(name: str, kwargs: dict[str, Any], told: str) -> None:
    """A missing column, an unknown argument, values that do not compare: a text, no exception, not met."""
    (result,) = _judge(name, **kwargs).result.results
    assert not result.is_met
    assert result.error
    assert told in result.error


def test_mistakes_in_arguments_are_found_without_rows() -> None:
    """What validate tells: an argument that is not taken, one that is missing; a good suite has none."""
    wrong = _suite(
        Expectation("expect_column_values_to_be_between", {"column": "id", "min": 3}),
        Expectation("expect_column_values_to_not_be_null", {}),
    )
    found = mistakes(wrong)
    assert len(found) == 2
    assert "min" in found[0]
    assert "column" in found[1]
    good = [Expectation(f"expect_{name}", kwargs) for name, kwargs, _, _ in MET_AND_NOT]
    assert mistakes(_suite(*good)) == ()


def test_only_the_columns_in_use_are_read() -> None:
    """The expectations' columns, a row condition's, the whole struct of a nested field, coordinates."""
    condition = {"column": "price", "row_condition": "code = 'c1' AND id > 3", "condition_parser": "pandas"}
    suite = _suite(
        Expectation("expect_column_values_to_not_be_null", condition),
        Expectation("expect_column_values_to_not_be_null", {"column": "customer.country"}),
    )
    assert set(columns_of([suite], SCHEMA)) == {
        "_kafka_partition",
        "_kafka_offset",
        "price",
        "code",
        "id",
        "customer",
    }


@pytest.mark.parametrize("key", ["regex", "regex_list"])
def test_a_regex_takes_no_longer_than_its_values(key: str) -> None:
    """RE2 judges it: where every way through the letters was tried, this took hours."""
    rows = _rows(code=["a" * 200 + "!"] * 10)
    regex = "^(a+)+$" if key == "regex" else ["^(a+)+$", "^(a|aa)+$"]
    _judge("expect_column_values_to_not_be_null", column="id")  # the library is imported
    began = time.monotonic()
    judged = _judge(f"expect_column_values_to_not_match_{key}", rows, column="code", **{key: regex})
    assert time.monotonic() - began < 10
    assert judged.result.results[0].error is None


def test_values_are_short_and_without_secrets() -> None:
    """Twenty examples at most, each cut; a remembered secret in a value is masked."""
    secrets.remember("hunter2-hunter2")
    codes = ["hunter2-hunter2", "x" * 500]
    rows = pa.concat_tables([_rows(code=codes * 5)] * 4)
    judged = _judge("expect_column_values_to_match_regex", rows, column="code", regex="^y")
    (result,) = judged.result.results
    assert result.unexpected == 40
    assert len(result.examples) == 20
    assert max(len(row.value) for row in result.examples) < 100
    assert "hunter2" not in str(judged.result)


def test_nothing_is_sent_and_nothing_is_left_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No analytics, no folder of its own, no progress bars."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    _judge("expect_column_values_to_not_be_null", column="id")
    assert os.environ["GX_ANALYTICS_ENABLED"] == "false"
    assert list(tmp_path.iterdir()) == []


def test_no_progress_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """A run's log and a command's output stay their own."""
    _judge("expect_column_values_to_not_be_null", column="id")
    assert capfd.readouterr() == ("", "")


def test_the_names_are_those_of_the_installed_version() -> None:
    """A new version's names are sorted into rows, figures, columns and SQL, or configurations refuse them."""
    from great_expectations.expectations.expectation import (
        ColumnMapExpectation,
        ColumnPairMapExpectation,
        MulticolumnMapExpectation,
    )
    from great_expectations.expectations.registry import (
        get_expectation_impl,
        list_registered_expectation_implementations,
    )

    installed = {name for name in list_registered_expectation_implementations() if name.startswith("expect_")}
    assert installed == LOOKS_AT.keys()
    assert set(LOOKS_AT.values()) == {"rows", "figures", "columns", "sql"}
    by_row = (ColumnMapExpectation, ColumnPairMapExpectation, MulticolumnMapExpectation)
    maps = {name for name in installed if issubclass(get_expectation_impl(name), by_row)}
    assert maps >= {name for name, kind in LOOKS_AT.items() if kind == "rows"}
