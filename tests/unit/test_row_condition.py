"""Conditions of expectations are SQL; what is none, and was one before, is refused with the line to write."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from spark_jobs.config.columns import ColumnSettings
from spark_jobs.config.expressions import judge_row_conditions
from spark_jobs.config.settings import PipelineSettings
from spark_jobs.config.suites import Suite
from spark_jobs.expressions.conditions import judge_condition, line_instead
from spark_jobs.expressions.judging import ExpressionError
from spark_jobs.quality.judge import meeting

ROWS = pa.table(
    {
        "id": [1, 2, 3],
        "code": ["a", None, "c"],
        "customer": [{"country": "NO"}, {"country": "SE"}, {"country": None}],
        "order-no. class": [7, 8, 9],
        "at": ["x", "y", "z"],
    }
)
ANY = "expect_column_values_to_not_be_null"


@pytest.mark.parametrize(
    ("condition", "met"),
    [
        ("id > 1", [2, 3]),
        ("id >= 2 and code == 'c'", [3]),
        ("(id < 2) | (id == 3)", [1, 3]),
        ("not (id == 1 or id == 2)", [3]),
        ("code.isnull()", [2]),
        ("~code.isnull() & customer.country.notnull()", [1]),
        ("customer.country in ['NO', 'DK']", [1]),
        ("id not in (1, -2)", [2, 3]),
        ("code != '@x `y`'", [1, 2, 3]),
        ("1 <= id < 3", [1, 2]),
        ("2 < id", [3]),
        ("'b' < code", [3]),
        ("`customer.country` == 'NO' or `customer`.`country` == 'SE'", [1, 2]),
        ("`order-no. class` == 7 and code == 'it`s `'", []),
        ("`order-no. class` >= 8", [2, 3]),
        ("at == 'x' and 1.50 < id", []),
        ("id in []", []),
        ("id not in []", [1, 2, 3]),
        ('code == "a"', [1]),
        ("not code == 'a'", [2, 3]),
        ("(id == 1 and code == 'a') or id == 0x3", [1, 3]),
    ],
)
def test_a_condition_of_before_chooses_the_same_rows_in_sql(condition: str, met: list[int]) -> None:
    """Comparisons of columns with literals, joined by and, or, not: as they are, or as the line to write."""
    assert [*ROWS["id"].filter(pa.array(meeting(_now(condition), ROWS))).to_pylist()] == met


@pytest.mark.parametrize(
    ("condition", "line"),
    [
        ('code == "c1" and id > 3', "code = 'c1' AND id > 3"),
        ("code != 'a'", "code IS DISTINCT FROM 'a'"),
        ("not (id == 1 or id == 2)", "(id = 1 OR id = 2) IS NOT TRUE"),
        ("id not in (1, -2)", "(id IN (1, -2)) IS NOT TRUE"),
        ("1 <= id < 3 or code.notnull()", "(1 <= id AND id < 3) OR code IS NOT NULL"),
        ("~`customer.country`.isnull()", "customer.country IS NOT NULL"),
        (
            "`order-no. class` == 7 and at in ['a', 'it`s']",
            "\"order-no. class\" = 7 AND \"at\" IN ('a', 'it`s')",
        ),
        (r"code == 'a\'b'", "code = 'a''b'"),
    ],
)
def test_what_sql_reads_otherwise_is_refused_with_the_line_to_write(condition: str, line: str) -> None:
    """A text in double quotes, a comparison that a null met, a word of Python's; the line itself is taken."""
    with pytest.raises(ExpressionError, match="a row_condition is now SQL") as refused:
        judge_condition(condition)
    assert refused.value.hint == f"./sluice validate --fix writes: {line}"
    assert judge_condition(line).names == judge_condition(_now(condition)).names


@pytest.mark.parametrize(
    "condition",
    [
        *("id > 1", "id >= 2 and code == 'c'", "'b' < code", "id in (1, 2)", "ok == True or ok == 0"),
        *("id = 1", "code <> 'a'", "NOT (code = 'a')", "id > other", "lower(code) = 'a'", '"order" > 1'),
    ],
)
def test_what_keeps_the_same_rows_in_sql_or_never_was_python_is_taken(condition: str) -> None:
    """It is what it says: nobody is asked to write anything else."""
    assert line_instead(condition) is None
    assert judge_condition(condition)


def _now(condition: str) -> str:
    return line_instead(condition) or condition


UUIDS = [UUID(int=1).bytes, UUID(int=2).bytes, None]
TYPED = {
    "at": (pa.timestamp("us", "UTC"), [datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3)]),
    "local": (pa.timestamp("us"), [datetime(2024, 1, day) for day in (1, 2, 3)]),  # noqa: DTZ001
    "day": (pa.date32(), [date(2024, 1, 1), date(2024, 1, 2), None]),
    "clock": (pa.time64("us"), [time(8), time(9), None]),
    "price": (pa.decimal128(9, 2), [Decimal("1.10"), Decimal("2.20"), None]),
    "key": (pa.uuid(), UUIDS),
}


@pytest.mark.parametrize(
    ("condition", "met"),
    [
        ("at >= '2024-01-02T00:00:00Z'", [1, 2]),
        ("at < '2024-01-02T02:00:00+02:00'", [0]),
        ("'2024-01-01' < local <= '2024-01-02'", [1]),
        ("at in ['2024-01-03T00:00:00Z', '2024-01-01']", [0, 2]),
        ("day > '2024-01-01'", [1]),
        ("clock == '09:00'", [1]),
        ("price == 1.1 or price == '2.20'", [0, 1]),
        ("price in [2.2]", [1]),
        (f"key == '{UUID(int=2)}'", [1]),
    ],
)
def test_a_literal_is_compared_as_the_columns_type(condition: str, met: list[int]) -> None:
    """Times with or without a zone, dates, decimals and uuids are written as their columns take them."""
    assert _positions(condition, _typed()) == met


@pytest.mark.parametrize("condition", ["s == 5", "s != 5", "s in ['x', 5]", "s == True", "5 < s", "n == 'x'"])
def test_a_literal_that_no_value_of_the_column_could_equal_is_told(condition: str) -> None:
    """A text is no number; the condition would choose no row, and judge none."""
    with pytest.raises(
        ExpressionError, match=r"^the row_condition cannot be evaluated: (Could not convert|Cannot compare)"
    ):
        _positions(condition, _mixed())


@pytest.mark.parametrize(
    ("condition", "met"),
    [
        ("n == 1.0", [0]),
        ("n in [2, 2.5]", [1]),
        ("big == 9007199254740993", [0]),
        ("ok == True or ok == 0", [0]),
        ("sure != False", [0]),
        ("ratio >= 1", [1]),
        ("s in ['x', '5']", [0]),
        ("none == 5 or none == '5'", []),
        ("maybe > 1 or maybe.isnull()", [1]),
        ("maybe != 0.5", [1]),
    ],
)
def test_numbers_and_booleans_are_compared_with_each_other(condition: str, met: list[int]) -> None:
    """Also where nulls are beside them, which NaN is too; a column of nulls alone is of any type."""
    assert _positions(condition, _mixed()) == met


@pytest.mark.parametrize("condition", ["at > 'soon'", "at == 3", "price < 'x'", "key == 'x'", "clock < 9"])
def test_a_literal_that_is_none_of_the_columns_type_is_told(condition: str) -> None:
    """In one line, never an answer that no row meets."""
    with pytest.raises(ExpressionError, match=r"^the row_condition cannot be evaluated: [^\n]+$"):
        _positions(condition, _typed())


def test_a_column_that_is_not_there_and_an_answer_that_is_no_truth_value_are_told() -> None:
    """By name, before any row is looked at."""
    with pytest.raises(
        ExpressionError, match="the row_condition uses the column other, which does not exist"
    ):
        meeting("other > 1", ROWS)
    with pytest.raises(ExpressionError, match="gives int64, and a condition is true or false"):
        meeting("id + 1", ROWS)


def _positions(condition: str, rows: pa.Table) -> list[int]:
    return [*meeting(_now(condition), rows).nonzero()[0].tolist()]


def _typed() -> pa.Table:
    return pa.table({name: pa.array(values, kind) for name, (kind, values) in TYPED.items()})


def _mixed() -> pa.Table:
    values: dict[str, list[Any]] = {
        "s": ["x", None],
        "n": [1, 2],
        "big": [2**53 + 1, None],
        "ok": [True, None],
        "sure": [True, False],
        "ratio": [0.5, 1.5],
        "raw": [b"x", None],
        "maybe": [0.5, float("nan")],
        "none": [None, None],
    }
    return pa.table(values)


@pytest.mark.parametrize(
    "condition",
    [
        '@pd.io.common.os.system("touch /tmp/x")',
        '__import__("os").system("true")',
        "id.map(print)",
        "id.isnull(1)",
        "(lambda: 1)() == 1",
        "1 < id < code",
        "1 < 2 < id",
        "id is 1",
        "`` == 1",
        "`id.map`(print)",
        "",
        "(" * 1000 + "id",
        "not " * 400 + "x" * 4000,
        "id in (SELECT 1)",
        "id = (SELECT max(id) FROM 'other.parquet')",
        "read_text('/etc/passwd') = 'a'",
        "getenv('HOME') = 'a'",
        "random() < 0.5",
        "max(id) OVER () = id",
        "_ingested_at > '2024-01-01'",
        "id = 1; DROP TABLE t",
        "id = $1",
    ],
)
def test_anything_else_is_refused_when_the_file_is_read(condition: str) -> None:
    """Queries, files, draws and clocks, functions that are none of one row's, and what is no condition."""
    with pytest.raises(ExpressionError):
        judge_condition(condition)
    suite = _suite({"column": "id", "row_condition": condition})
    (finding,) = judge_row_conditions(PipelineSettings(quality=(suite,)))
    assert finding.path == ("quality", "0", "expectations", "0", ANY, "row_condition")


def test_what_great_expectations_has_instead_of_a_text_is_refused_when_the_file_is_read() -> None:
    """Its own condition objects could hold anything."""
    condition = {"type": "pass_through", "pass_through_filter": "id > 1"}
    with pytest.raises(ValueError, match="has a row_condition that is not text"):
        _suite({"column": "id", "row_condition": condition})


def test_types_are_judged_where_they_are_declared() -> None:
    """A column alone is no condition; a date is compared as a time."""
    columns = {"n": ColumnSettings(type="long"), "day": ColumnSettings(type="date")}
    asked = {"n": "gives int64, and a condition is true or false", "day > '2024-01-01T12:00Z'": None}
    for condition, told in asked.items():
        suite = _suite({"column": "id", "row_condition": condition})
        found = [*judge_row_conditions(PipelineSettings(quality=(suite,), columns=columns))]
        assert [each.message for each in found] == ([told] if told else [])


@pytest.mark.parametrize(
    "arguments",
    [
        {"column": "id", "condition_parser": "python"},
        {"column": "id", "mostly": {"$PARAMETER": "now()"}},
        {"column": "id", "json_schema": {"properties": {"a": {"$ref": "file:///etc/passwd"}}}},
        {"column": "id", "json_schema": {"allOf": [{"$ref": "http://10.0.0.1/"}]}},
    ],
)
def test_arguments_that_reach_beyond_the_rows_are_refused(arguments: dict[str, object]) -> None:
    """Other parsers, expressions and schemas that would be fetched are mistakes of the file."""
    with pytest.raises(ValueError, match="expect_column_values_to_not_be_null has a"):
        _suite(arguments)
    assert _suite({"column": "id", "json_schema": {"$ref": "#/definitions/a"}})


def _suite(arguments: dict[str, object]) -> Suite:
    return Suite.model_validate({"name": "s", "expectations": [{ANY: arguments}]})
