"""The ``quality`` list of a pipeline: what is read, and what is told about a mistake."""

from __future__ import annotations

import pytest

from spark_jobs.config.build import build_config
from spark_jobs.config.file import parse_document
from spark_jobs.config.suites import Expectation, OnFailure, Severity, Suite, When

BEFORE = """\
version: 1
pipelines:
  orders:
    topic: orders
    table: lake.orders
    quality:
"""


def _build(text: str):
    indented = "".join(f"      {line}\n" for line in text.splitlines())
    document, problems = parse_document("sluice.yaml", BEFORE + indented)
    assert not problems
    assert document is not None
    return build_config(document, (), home="/home", folder="/folder")


def test_a_suite_with_defaults_and_one_without() -> None:
    """What is left out is after, hold and error; arguments have the types they are written with."""
    built = _build("""\
- name: plain
  expectations:
    - expect_column_values_to_be_between: {column: price, min_value: 0, max_value: 1e3, strict_max: true}
    - expect_column_values_to_be_in_set: {column: code, value_set: ["1", 2, 007, on, -0.5, 2026-01-01]}
- name: strict
  when: gate
  on_failure: dead_letters
  severity: warn
  expectations: [expect_column_values_to_not_be_null: {column: id}]""")
    assert built.problems == ()
    assert built.config is not None
    between = {"column": "price", "min_value": 0, "max_value": 1000.0, "strict_max": True}
    one_of = {"column": "code", "value_set": ["1", 2, "007", "on", -0.5, "2026-01-01"]}
    plain, strict = built.config.pipelines[0].quality
    assert plain == Suite(
        name="plain",
        expectations=(
            Expectation("expect_column_values_to_be_between", between),
            Expectation("expect_column_values_to_be_in_set", one_of),
        ),
    )
    assert (plain.when, plain.on_failure, plain.severity) == (When.AFTER, OnFailure.HOLD, Severity.ERROR)
    assert (strict.when, strict.on_failure, strict.severity) == (
        When.GATE,
        OnFailure.DEAD_LETTERS,
        Severity.WARN,
    )
    assert built.config.pipelines[0].gates == (strict,)


GOOD = "expectations: [expect_column_values_to_not_be_null: {column: id}]"


@pytest.mark.parametrize(
    ("text", "key", "line", "told"),
    [
        (f"- name: a\n  {GOOD}\n  wen: gate", "0.wen", 9, "Did you mean when?"),
        (f"- name: a\n  when: before\n  {GOOD}", "0.when", 8, "must be 'after' or 'gate'"),
        (f"- {GOOD}", "0.name", 7, "is required"),
        ("- name: a", "0.expectations", 7, "is required"),
        ("- name: a\n  expectations: []", "0", 7, "has no expectations"),
        (f"- name: a\n  on_failure: hold\n  {GOOD}", "0", 7, "Add when: gate"),
        (f"- name: a\n  {GOOD}\n- name: a\n  {GOOD}", "", 6, "has two suites named a"),
        (
            "- name: a\n  expectations:\n    - expect_column_values_to_not_be_nul: {column: id}",
            "0.expectations.0",
            9,
            "Did you mean expect_column_values_to_not_be_null?",
        ),
        (
            "- name: a\n  expectations:\n    - expect_query_results_to_match_comparison: {}",
            "0.expectations.0",
            9,
            "needs a database",
        ),
        (
            "- name: a\n  expectations:\n    - expect_column_to_exist: id",
            "0.expectations.0",
            9,
            "must be a map",
        ),
        ("- name: a\n  expectations:\n    - {}", "0.expectations.0", 9, "must be one expectation"),
        (
            "- {name: a, when: gate, on_failure: dead_letters, expectations: [expect_column_to_exist: {}]}",
            "0",
            7,
            "none of its expectations is about single rows",
        ),
    ],
)
def test_mistakes_have_a_line_a_key_and_a_way_out(text: str, key: str, line: int, told: str) -> None:
    """Each mistake is one problem at the line and key where it is written."""
    (problem,) = _build(text).problems
    assert problem.key == ".".join(filter(None, ("pipelines.orders.quality", key)))
    assert problem.line == line
    assert told in f"{problem.message} {problem.hint}"
