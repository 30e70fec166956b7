"""Evaluates expressions over a chunk: results in row order, and the rows where one fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.expressions.engine import select
from spark_jobs.expressions.judging import first_line
from spark_jobs.expressions.quoting import quoted
from spark_jobs.expressions.results import check_condition

_ROW = "sluice row"
_VALUE = "v"


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A result for each row, null if the expression fails; ``errors`` are reasons by position."""

    values: pa.ChunkedArray
    errors: Mapping[int, str] = field(default_factory=dict)


def evaluate(expressions: Mapping[str, str], chunk: pa.Table) -> dict[str, Evaluated]:
    """Return the result of each judged expression on the rows.

    All of them in one query; one that fails on a row is evaluated again by itself. Raises ``duckdb.Error``
    only without rows, for what does not go together with the columns.
    """
    if not expressions:
        return {}
    try:
        values = _results(expressions, chunk)
    except duckdb.Error:
        if not chunk.num_rows:
            raise
        if len(expressions) == 1:
            ((name, sql),) = expressions.items()
            return {name: _forgiving(sql, chunk)}
        return {name: evaluate({name: sql}, chunk)[name] for name, sql in expressions.items()}
    return {name: Evaluated(each) for name, each in values.items()}


def is_true(sql: str, chunk: pa.Table) -> np.ndarray:
    """Return the rows for which a judged condition is true. Raises ``duckdb.Error`` if it cannot run.

    Raises ``ExpressionError`` for what is neither true nor false.
    """
    answers = _results({_VALUE: sql}, chunk)[_VALUE]
    check_condition(answers.type, "a condition")
    met: np.ndarray = answers.cast(pa.bool_()).fill_null(False).to_numpy()
    return met


def _forgiving(sql: str, chunk: pa.Table) -> Evaluated:
    """Return results and the rows that have none.

    A struct around the result tells a null from a failure. What even that does not survive is halved down to
    the record.
    """
    try:
        results = _results({_VALUE: f"TRY(struct_pack({_VALUE} := {sql}))"}, chunk)[_VALUE].combine_chunks()
    except duckdb.Error as error:
        if chunk.num_rows == 1:
            return Evaluated(pa.chunked_array([pa.nulls(1)]), {0: first_line(error)})
        middle = chunk.num_rows // 2
        first, second = _forgiving(sql, chunk.slice(0, middle)), _forgiving(sql, chunk.slice(middle))
        errors = {**first.errors, **{middle + row: why for row, why in second.errors.items()}}
        return Evaluated(_joined(first.values, second.values), errors)
    failed = np.flatnonzero(results.is_null().to_numpy(zero_copy_only=False)).tolist()
    values = pc.struct_field(results, [0])
    return Evaluated(pa.chunked_array([values]), {row: _why(sql, chunk.slice(row, 1)) for row in failed})


def _joined(first: pa.ChunkedArray, second: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = second.type if pa.types.is_null(first.type) else first.type
    return pa.chunked_array([*first.cast(kind).chunks, *second.cast(kind).chunks], kind)


def _why(sql: str, row: pa.Table) -> str:
    try:
        _results({_VALUE: sql}, row)
    except duckdb.Error as error:
        return first_line(error)
    return "it cannot be evaluated"


def _results(expressions: Mapping[str, str], chunk: pa.Table) -> dict[str, pa.ChunkedArray]:
    rows = np.arange(chunk.num_rows)
    selection = ", ".join(
        f"{sql} AS {quoted(f'{number}')}" for number, sql in enumerate(expressions.values())
    )
    numbered = chunk.append_column(_ROW, pa.array(rows))
    results = select(f"{selection}, {quoted(_ROW)}", numbered)
    if not np.array_equal(results.column(_ROW).to_numpy(), rows):
        raise AssertionError("the results are in another order than the rows")
    return dict(zip(expressions, results.columns[:-1], strict=True))
