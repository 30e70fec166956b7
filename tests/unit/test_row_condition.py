"""Conditions of expectations are parsed by a grammar of comparisons, never executed."""

from __future__ import annotations

import pandas as pd
import pytest

from spark_jobs.config.problems import UnreadableValueError
from spark_jobs.config.row_condition import columns, rows_that_meet
from spark_jobs.config.suites import Suite

FRAME = pd.DataFrame({"id": [1, 2, 3], "code": ["a", None, "c"], "customer.country": ["NO", "SE", None]})
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
    ],
)
def test_a_condition_chooses_rows(condition: str, met: list[int]) -> None:
    """Comparisons of columns with literals, joined by and, or, not."""
    assert list(rows_that_meet(condition, FRAME).id) == met


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
        "1 < id < 3",
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
