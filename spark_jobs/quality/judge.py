"""Evaluates one suite by Great Expectations: no project folder, no telemetry, no files.

Importing it takes seconds, so it is imported when the first suite is judged.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import duckdb
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.secrets import scrub
from spark_jobs.config.suites import Expectation, OnFailure, Suite
from spark_jobs.expressions.evaluating import is_true
from spark_jobs.expressions.judging import ExpressionError, first_line
from spark_jobs.expressions.judging import judge as judge_expression
from spark_jobs.protocol.errors import needs
from spark_jobs.quality.results import FAILING_ROWS_SHOWN, ExpectationResult, FailingRow, SuiteResult
from spark_jobs.schema.arrow_schema import arrow_schema, no_rows
from spark_jobs.schema.iceberg_types import OFFSET, PARTITION

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from pyiceberg.schema import Schema


VALUE_CHARACTERS = 80
ERROR_CHARACTERS = 300
# How pandas writes what is null; a text of the same letters is a text.
_NULLS = frozenset({"None", "nan", "NaT", "<NA>"})


@dataclass(frozen=True, slots=True)
class Judgement:
    """A suite's result, and reasons of failing rows that go to the dead letters, by partition, offset."""

    result: SuiteResult
    rejected: dict[int, dict[int, str]] = field(default_factory=dict)


def columns_of(suites: Sequence[Suite], schema: Schema) -> tuple[str, ...]:
    """Return the columns that these suites read: their own and the coordinates."""
    known = arrow_schema(schema)
    named = [
        name
        for suite in suites
        for expectation in suite.expectations
        if not expectation.is_of_columns
        for name in (*expectation.columns, *_compared(expectation))
    ]
    return tuple(dict.fromkeys([PARTITION, OFFSET, *top_level(named, known)]))


def judge(suite: Suite, rows: pa.Table, schema: Schema) -> Judgement:
    """Evaluate ``rows``, with the columns of ``columns_of``, of a table with this schema.

    An expectation that cannot be judged (a column that is not there, arguments it does not take) has an
    ``error`` and is not met. Nothing is raised for it.
    """
    validate = _validator()
    whole = arrow_schema(schema)
    empty = no_rows(whole)
    results = []
    rejected: defaultdict[int, dict[int, str]] = defaultdict(dict)
    for expectation in suite.expectations:
        part = empty if expectation.is_of_columns else rows
        is_whole = suite.on_failure is OnFailure.DEAD_LETTERS and expectation.is_of_rows
        answer = validate(part, expectation, to_arguments(expectation.arguments, whole), is_whole)
        results.append(_result(expectation, answer, rows))
        if is_whole and not results[-1].is_met:
            _reject(rejected, suite, expectation, answer, rows)
    return Judgement(SuiteResult(suite.name, len(rows), tuple(results)), dict(rejected))


def mistakes(suite: Suite) -> tuple[str, ...]:
    """Return mistakes in the suite's arguments that can be found without rows."""
    configuration = _library().expectations.expectation_configuration.ExpectationConfiguration
    found = []
    for expectation in suite.expectations:
        try:
            configuration(expectation.type, expectation.arguments).to_domain_obj()
        except Exception as error:  # noqa: BLE001  (the library's own kinds are many; each is the suite's mistake)
            found.append(f"{expectation.type}: {_describe(error)}")
    return tuple(found)


def _library() -> Any:
    """Import Great Expectations with its telemetry disabled."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    with needs("quality"):
        import great_expectations as gx  # noqa: PLC0415  (takes seconds)
    return gx


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer of Great Expectations, or its error."""

    is_met: bool
    result: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


def _validator() -> Any:
    """Return a function from a data frame and an expectation to an ``_Answer``."""
    gx = _library()
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = gx.data_context.types.base.ProgressBarsConfig(globally=False)
    configuration = gx.expectations.expectation_configuration.ExpectationConfiguration
    frames = context.data_sources.add_pandas("rows").add_dataframe_asset("rows")
    whole = frames.add_batch_definition_whole_dataframe("rows")

    def validate(rows: pa.Table, expectation: Expectation, kwargs: dict[str, Any], is_whole: bool) -> _Answer:
        try:
            frame = to_frame(rows, rows.column_names if expectation.is_of_columns else expectation.columns)
            if expectation.row_condition is not None:
                frame = frame[meeting(expectation.row_condition, rows)]
            suite = gx.ExpectationSuite(name=expectation.type)
            suite.add_expectation_configuration(configuration(expectation.type, kwargs))
            batch = whole.get_batch({"dataframe": frame})
            result_format = {
                "result_format": "COMPLETE" if is_whole else "SUMMARY",
                "partial_unexpected_count": FAILING_ROWS_SHOWN,
            }
            (answer,) = batch.validate(suite, result_format=result_format).results
        except Exception as error:  # noqa: BLE001  (the library's own kinds are many; each is the suite's mistake)
            return _Answer(is_met=False, error=_describe(error))
        failure = _failure(answer.exception_info)
        return _Answer(bool(answer.success) and failure is None, dict(answer.result), failure)

    return validate


def _failure(info: Any) -> str | None:
    """Return the message of a failed expectation, which the library may nest by metric."""
    if not isinstance(info, dict):
        return None
    raised = [
        each for each in (info, *info.values()) if isinstance(each, dict) and each.get("raised_exception")
    ]
    return _one_line(str(raised[0].get("exception_message") or "it failed")) if raised else None


def _result(expectation: Expectation, answer: _Answer, rows: pa.Table) -> ExpectationResult:
    found = answer.result
    observed = found.get("observed_value")
    positions = (found.get("partial_unexpected_index_list") or [])[:FAILING_ROWS_SHOWN]
    values = found.get("partial_unexpected_list") or []
    partitions, offsets = rows.column(PARTITION), rows.column(OFFSET)
    examples = (
        FailingRow(partitions[int(at)].as_py(), offsets[int(at)].as_py(), _shown(value))
        for at, value in zip(positions, values, strict=False)
    )
    return ExpectationResult(
        expectation=scrub(str(expectation)),
        is_met=answer.is_met,
        observed=None if observed is None else _shown(observed),
        checked=int(found.get("element_count") or 0),
        unexpected=int(found.get("unexpected_count") or 0),
        examples=() if answer.is_met else tuple(examples),
        error=answer.error,
    )


def _reject(
    rejected: defaultdict[int, dict[int, str]],
    suite: Suite,
    expectation: Expectation,
    answer: _Answer,
    rows: pa.Table,
) -> None:
    why = f"suite {suite.name}: {scrub(str(expectation))}"
    positions = [int(position) for position in answer.result.get("unexpected_index_list") or []]
    failing = rows.select([PARTITION, OFFSET]).take(pa.array(positions, pa.int64()))
    for partition, offset in zip(*(column.to_pylist() for column in failing.columns), strict=True):
        rejected[partition].setdefault(offset, why)


def _shown(value: object) -> str:
    text = scrub(str(value))
    return "null" if text in _NULLS and not isinstance(value, str) else _cut(text, VALUE_CHARACTERS)


def _describe(error: Exception) -> str:
    return _one_line(str(error) or type(error).__name__)


def _one_line(text: str) -> str:
    return _cut(" ".join(scrub(text).split()), ERROR_CHARACTERS)


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[:characters]}…"


# Arrow rows as the pandas frame that Great Expectations' own metrics are written for.
#
# Whole numbers with nulls are floats there as long as no value changes by it, times are UTC without a zone,
# nested values are JSON text, so that every expectation can compare and count them.


LARGEST_EXACT_FLOAT = 2**53


def top_level(columns: Iterable[str], schema: pa.Schema) -> tuple[str, ...]:
    """Return the table's columns that contain these; ``customer.country`` is in ``customer``."""
    known = set(schema.names)
    named = (column if column in known else column.partition(".")[0] for column in columns)
    return tuple(dict.fromkeys(name for name in named if name in known))


def to_frame(rows: pa.Table, columns: Iterable[str]) -> pd.DataFrame:
    """Return these columns, in this order; those missing in ``rows`` are left out."""
    import pandas as pd  # noqa: PLC0415  (only suites need it)

    found = {name: column for name in columns if (column := _column(rows, name)) is not None}
    return pd.DataFrame(
        {name: _series(column) for name, column in found.items()}, index=pd.RangeIndex(len(rows))
    )


def meeting(condition: str, rows: pa.Table) -> np.ndarray:
    """Return the rows that meet the condition; null and NaN do not, times of any kind are in UTC.

    Raises ``ExpressionError`` for a column that is not there, and for values that do not compare.
    """
    expression = judge_expression(condition)
    for name in expression.names:
        if name not in rows.column_names:
            raise ExpressionError(f"the row_condition uses the column {name}, which does not exist")
    compared = rows.select([name for name in rows.column_names if name in expression.names])
    columns = dict(zip(compared.column_names, map(_as_compared, compared.columns), strict=True))
    try:
        return is_true(expression.sql, pa.table(columns or {"": pa.nulls(len(rows))}))
    except duckdb.Error as error:
        raise ExpressionError(f"the row_condition cannot be evaluated: {first_line(error)}") from error


def _compared(expectation: Expectation) -> tuple[str, ...]:
    condition = expectation.row_condition
    return () if condition is None else judge_expression(condition).names


def _as_compared(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values in the form of conditions, and in the form of expectations (``_series``)."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp(column.type.unit, "UTC"))
    if pa.types.is_date(column.type):
        return column.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    return pc.if_else(pc.is_nan(column), None, column) if pa.types.is_floating(column.type) else column


def to_arguments(kwargs: Mapping[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """Return the arguments; texts compared to times or dates are converted to times."""
    names = [kwargs[key] for key in ("column", "column_A", "column_B") if key in kwargs]
    if not any(_is_temporal(schema, name) for name in names):
        return dict(kwargs)
    return {key: value if key in {"column", "regex"} else _as_time(value) for key, value in kwargs.items()}


def _column(rows: pa.Table, name: str) -> pa.ChunkedArray | None:
    if name in rows.column_names:
        return rows.column(name)
    first, *fields = name.split(".")
    if first in rows.column_names:
        with suppress(pa.ArrowException):  # it has no such field
            return pc.struct_field(rows.column(first), fields)
    return None


def _series(column: pa.ChunkedArray) -> Any:
    kind = column.type
    if pa.types.is_nested(kind):
        return _json_texts(column)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return column.cast(pa.timestamp(kind.unit)).to_pandas()
    if pa.types.is_integer(kind) and column.null_count and not _is_exact_as_float(column):
        return column.to_pandas(integer_object_nulls=True)
    return column.to_pandas(date_as_object=False)


def _is_exact_as_float(column: pa.ChunkedArray) -> bool:
    bounds = pc.min_max(column).as_py()
    return all(value is None or abs(value) <= LARGEST_EXACT_FLOAT for value in bounds.values())


def _json_texts(column: pa.ChunkedArray) -> list[str | None]:
    options = orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS
    return [
        None if value is None else orjson.dumps(_plain(value), default=str, option=options).decode()
        for value in column.to_pylist()
    ]


def _plain(value: Any) -> Any:
    """Return bytes as text; maps arrive from Arrow as pairs."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.hex() if isinstance(value, bytes) else value


def _is_temporal(schema: pa.Schema, name: object) -> bool:
    if not isinstance(name, str) or name not in schema.names:
        return False
    kind = schema.field(name).type
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _as_time(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_time(item) for item in value]
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)  # noqa: DTZ001  (as the columns are: UTC)
    if not isinstance(value, str):
        return value
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return value
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
