"""Checks of a pipeline's expressions that need no record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from spark_jobs.config.columns import ColumnSettings, FieldForm, LetterColumn, duckdb_type
from spark_jobs.config.iceberg_terms import check_partition_by, parse_partition_term
from spark_jobs.config.problems import Finding, Path, UnreadableValueError, mistake, wrong_value
from spark_jobs.config.settings import PipelineSettings, PipelineTemplate
from spark_jobs.config.suites import ROW_CONDITION, Expectation
from spark_jobs.config.value_format import ValueFormat
from spark_jobs.expressions.conditions import judge_condition
from spark_jobs.expressions.judging import (
    KAFKA_NAMES,
    LETTER_NAMES,
    Expression,
    ExpressionError,
    bound_type,
    judge,
)
from spark_jobs.expressions.paths import compiled
from spark_jobs.expressions.regex import check_regex
from spark_jobs.expressions.results import check_condition, check_result, check_route_value, column_type

# Columns of a dead-letter table that differ when a record is read again.
_UNSPOKEN = ("batch_id", "_ingested_at", "first_failed_at", "failures")
# Dates and times of any kind are compared as times in UTC, as expectations have them (quality/judge.py).
_AS_COMPARED = {"DATE": "TIMESTAMPTZ", "TIMESTAMP": "TIMESTAMPTZ"}


def judge_expressions(entry: PipelineSettings, *, folds: bool = True) -> Iterator[Finding]:
    """Yield every mistake in column, filter and route expressions; types only if all are known.

    Regular expressions, conditions on rows and the dead-letter table's columns come first. Without ``folds``
    no constant is looked at that need not be.
    """
    yield from _judge_regexes(entry)
    yield from judge_row_conditions(entry, folds=folds)
    yield from _judge_letter_columns(entry, folds=folds)
    judging = _Judging(entry, folds)
    for name, column in entry.columns.items():
        yield from _tried(("columns", name, _key(column)), partial(judging.check_column, name, column))
    if entry.filter is not None and "filter" not in entry.layout.not_said:
        yield from _tried(("filter",), partial(judging.check, entry.filter, check_condition))
    if entry.route.by is not None and "route" not in entry.layout.not_said:
        yield from _tried(("route", "by"), partial(judging.check, entry.route.by, check_route_value))


def _tried(path: Path, check: Callable[[], None]) -> Iterator[Finding]:
    """Yield the reason if the expression is refused."""
    try:
        check()
    except (ExpressionError, UnreadableValueError) as error:
        yield Finding(path, error.message, error.hint)


def _judge_regexes(entry: PipelineSettings) -> Iterator[Finding]:
    """Yield regular expressions that RE2 cannot parse, in ``topics_regex`` and expectations."""
    if isinstance(entry, PipelineTemplate):
        yield from _tried(("topics_regex",), partial(check_regex, entry.topics_regex))
    for path, expectation in _expectations(entry):
        for key, regex in expectation.regexes:
            yield from _tried((*path, key), partial(check_regex, regex))


def judge_row_conditions(entry: PipelineSettings, *, folds: bool = True) -> Iterator[Finding]:
    """Yield every mistake in row conditions of expectations; types only if all are declared."""
    declared = {name: duckdb_type(column.type) for name, column in entry.columns.items()}
    known = {**KAFKA_NAMES, **{name: _AS_COMPARED.get(kind, kind) for name, kind in declared.items()}}
    if entry.record_key.is_binary:
        known["_kafka_key"] = "BLOB"

    def check(condition: str) -> None:
        expression = judge_condition(condition)
        if known.keys() >= set(expression.names):
            types = {name: known[name] for name in expression.names}
            check_condition(bound_type(expression, types, folds=folds), "a condition")

    for path, expectation in _expectations(entry):
        if expectation.row_condition is not None:
            yield from _tried((*path, ROW_CONDITION), partial(check, expectation.row_condition))


def _expectations(entry: PipelineSettings) -> Iterator[tuple[Path, Expectation]]:
    for at, suite in enumerate(entry.quality):
        for number, expectation in enumerate(suite.expectations):
            yield ("quality", str(at), "expectations", str(number), expectation.type), expectation


def _judge_letter_columns(entry: PipelineSettings, *, folds: bool = True) -> Iterator[Finding]:
    """Yield every mistake in the columns and partition fields of the dead-letter table."""
    letters = entry.dead_letters
    if not letters.columns and not letters.partition_by:
        return
    own = {*LETTER_NAMES, *_UNSPOKEN}
    for name, column in letters.columns.items():
        path = ("dead_letters", "columns", name)
        if name.lower() in own:
            yield mistake("column-of-letters", path)
        else:
            yield from _tried((*path, "sql"), partial(_check_dead_letter_column, column, folds=folds))
    for term in letters.partition_by:
        column_name = parse_partition_term(term).column
        if column_name not in own | letters.columns.keys():
            yield mistake("no-letter-column", ("dead_letters", "partition_by"), name=column_name)
    types = {name: column.type for name, column in letters.columns.items()}
    wrong = check_partition_by(letters.partition_by, types)
    if wrong is not None:
        yield replace(wrong, path=("dead_letters", *wrong.path))


def _check_dead_letter_column(column: LetterColumn, *, folds: bool) -> None:
    expression = judge(column.sql)
    for name in expression.names:
        if name.lower() not in LETTER_NAMES:
            raise wrong_value("not-of-letters", name=name, found=", ".join(LETTER_NAMES))
    types = {name: LETTER_NAMES[name.lower()] for name in expression.names}
    result = bound_type(expression, types, folds=folds)
    check_result(result, column_type(duckdb_type(column.type)), column.type)


def _key(column: ColumnSettings) -> str:
    return "sql" if column.sql is not None else "jmespath" if column.jmespath is not None else "from"


@dataclass(frozen=True, slots=True)
class _Judging:
    entry: PipelineSettings
    folds: bool

    @property
    def _is_json(self) -> bool:
        return self.entry.value.format is ValueFormat.JSON and self.entry.envelope is None

    def check_column(self, name: str, column: ColumnSettings) -> None:
        """Raise ``ExpressionError`` if the expression cannot compute the column."""
        format_name = "change events" if self.entry.envelope else self.entry.value.format
        if column.jmespath is not None:
            compiled(column.jmespath)
            if not self._is_json:
                raise wrong_value("path-not-of-json", format=format_name, jmespath=column.jmespath)
        if column.written_as is FieldForm.JSON and not self._is_json:
            raise wrong_value("form-not-of-json", format=format_name)
        if column.sql is None:
            return
        expression = judge(column.sql)
        computed = {
            each.lower() for each, of in self.entry.columns.items() if of.is_computed and each != name
        }
        for each in expression.names:
            if each.lower() in computed:
                raise wrong_value("of-another-expression", name=each)
        result = self._bound(expression, name)
        if result is not None:
            check_result(result, column_type(duckdb_type(column.type)), column.type)

    def check(self, text: str, check_type: Callable[[Any], None]) -> None:
        """Raise ``ExpressionError`` if the expression is invalid or of another type."""
        result = self._bound(judge(text), None)
        if result is not None:
            check_type(result)

    def _bound(self, expression: Expression, own: str | None) -> object:
        """Return the Arrow type of the result, or None while a column's type is unknown."""
        types = {name: self._type(name, own) for name in expression.names}
        known = {name: kind for name, kind in types.items() if kind is not None}
        return bound_type(expression, known, folds=self.folds) if len(known) == len(types) else None

    def _type(self, name: str, own: str | None) -> str | None:
        """Return the DuckDB type of a name in the expression of column ``own`` (None in a filter)."""
        lower = name.lower()
        declared = {each.lower(): column for each, column in self.entry.columns.items() if each != own}
        if lower in declared:
            return duckdb_type(declared[lower].type)
        if lower == "_kafka_key" and self.entry.record_key.is_binary:
            return "BLOB"
        if lower in KAFKA_NAMES:
            return KAFKA_NAMES[lower]
        if self._is_json:
            return "VARCHAR" if self.entry.is_exact or name == own else None
        if self.entry.is_exact or name == own:
            raise wrong_value("named-as-its-field" if name == own else "not-declared", name=name)
        return None
