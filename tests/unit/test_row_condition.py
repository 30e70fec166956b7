"""Conditions of expectations are parsed by a grammar of comparisons, never executed."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pandas as pd
import pyarrow as pa
import pytest

from spark_jobs.config.problems import UnreadableValueError
from spark_jobs.config.row_condition import columns, rows_that_meet
from spark_jobs.config.suites import Suite
from spark_jobs.quality.judge import to_frame

FRAME = pd.DataFrame(
    {
        "id": [1, 2, 3],
        "code": ["a", None, "c"],
        "customer.country": ["NO", "SE", None],
        "order-no. class": [7, 8, 9],
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
    ],
)
def test_a_condition_chooses_rows(condition: str, met: list[int]) -> None:
    """Comparisons of columns with literals, joined by and, or, not."""
    assert list(rows_that_meet(condition, FRAME).id) == met


UUIDS = [UUID(int=1).bytes, UUID(int=2).bytes, None]
TYPED = {
    "at": (pa.timestamp("us", "UTC"), [datetime(2024, 1, day, tzinfo=UTC) for day in (1, 2, 3)]),
    "local": (pa.timestamp("us"), [datetime(2024, 1, day) for day in (1, 2, 3)]),  # noqa: DTZ001
    "day": (pa.date32(), [date(2024, 1, 1), date(2024, 1, 2), None]),
    "clock": (pa.time64("us"), [time(8), time(9), None]),
    "price": (pa.decimal128(9, 2), [Decimal("1.10"), Decimal("2.20"), None]),
    "key": (pa.binary(16), UUIDS),
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
    assert list(rows_that_meet(condition, _typed()).index) == met


@pytest.mark.parametrize(
    "condition",
    [
        "s == 5",
        "s != 5",
        "s in ['x', 5]",
        "s == True",
        "5 < s",
        "n == '1'",
        "n not in ['1']",
        "big in [1, '1']",
        "ok == 'true'",
        "ok != 'true'",
        "sure == 'true'",
        "ratio < '1'",
        "raw == 'x'",
    ],
)
def test_a_literal_that_no_value_of_the_column_could_equal_is_told(condition: str) -> None:
    """A text is no number and no boolean; the condition would choose no row, and judge none."""
    with pytest.raises(
        TypeError, match=r"^column (s|n|big|ok|sure|ratio|raw) of the row_condition holds what"
    ):
        rows_that_meet(condition, _mixed())


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
    ],
)
def test_numbers_and_booleans_are_compared_with_each_other(condition: str, met: list[int]) -> None:
    """Also where nulls are beside them; a column of nulls alone is of any type."""
    assert list(rows_that_meet(condition, _mixed()).index) == met


@pytest.mark.parametrize("condition", ["at > 'soon'", "at == 3", "price < 'x'", "key == 'x'", "clock < 9"])
def test_a_literal_that_is_none_of_the_columns_type_is_told(condition: str) -> None:
    """In one line that names column and literal, never an answer that no row meets."""
    with pytest.raises(TypeError, match=r"^column (at|price|key|clock) of the row_condition holds what"):
        rows_that_meet(condition, _typed())


def _typed() -> pd.DataFrame:
    table = pa.table({name: pa.array(values, kind) for name, (kind, values) in TYPED.items()})
    return to_frame(table, TYPED)


def _mixed() -> pd.DataFrame:
    values: dict[str, list[Any]] = {
        "s": ["x", None],
        "n": [1, 2],
        "big": [2**53 + 1, None],
        "ok": [True, None],
        "sure": [True, False],
        "ratio": [0.5, 1.5],
        "raw": [b"x", None],
        "none": [None, None],
    }
    kinds = {"none": pa.string()}
    return to_frame(
        pa.table({name: pa.array(each, kinds.get(name)) for name, each in values.items()}), values
    )


@pytest.mark.parametrize(
    "condition",
    [
        '@pd.io.common.os.system("touch /tmp/x")',
        '__import__("os").system("true")',
        "id.map(print)",
        "id > code",
        "id + 1 > 2",
        "id in code",
        "id == [1]",
        "id.isnull(1)",
        "(lambda: 1)() == 1",
        "id[0] == 1",
        "f'{id}' == 'a'",
        "1 < id < code",
        "1 < 2 < id",
        "1 in id",
        "id is 1",
        "`` == 1",
        "`id.map`(print)",
        "id",
        "",
        "(" * 1000 + "id",
        "not " * 400 + "x" * 2000,
        {"type": "pass_through", "pass_through_filter": "id > 1"},
    ],
)
def test_anything_else_is_refused_when_the_file_is_read(condition: object) -> None:
    """Calls, other names, arithmetic, GX's own condition objects: a mistake of the file."""
    with pytest.raises(UnreadableValueError, match="row_condition"):
        columns(condition)
    with pytest.raises(ValueError, match="row_condition"):
        _suite({"column": "id", "row_condition": condition})


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
