"""Computed columns of dead letters: a failed expression gives null and its error; no dead letter is lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import pyarrow as pa

from spark_jobs.config.columns import LetterColumn
from spark_jobs.expressions.evaluating import evaluate
from spark_jobs.expressions.judging import Expression, judge
from spark_jobs.schema.schema_views import is_text
from spark_jobs.values.exact import placed

_ERROR = "error"
_BYTES = ("key", "value")


def with_columns(letters: pa.Table, columns: Mapping[str, LetterColumn]) -> pa.Table:
    """Return at least one dead letter with the expressions' results; ``error`` names a failed one."""
    expressions = {name: judge(column.sql) for name, column in columns.items()}
    rows = _inputs(letters, expressions)
    failures: defaultdict[int, list[str]] = defaultdict(list)
    columns_by_name = {}
    for name, result in evaluate({name: each.sql for name, each in expressions.items()}, rows).items():
        columns_by_name[name], misfits = placed(
            result.values.combine_chunks(), letters.schema.field(name).type
        )
        for row, why in {**misfits, **result.errors}.items():
            failures[row].append(f"dead_letters.columns.{name}: {why}")
    if failures:
        errors = enumerate(letters.column(_ERROR).to_pylist())
        columns_by_name[_ERROR] = pa.array(
            ["; ".join([error, *failures[row]]) for row, error in errors], pa.string()
        )
    return pa.Table.from_arrays(
        [columns_by_name.get(name, letters.column(name)) for name in letters.column_names],
        schema=letters.schema,
    )


def _inputs(letters: pa.Table, expressions: Mapping[str, Expression]) -> pa.Table:
    """Return the columns that expressions refer to, case-insensitively."""
    names = dict.fromkeys(name.lower() for each in expressions.values() for name in each.names)
    columns = {
        name: _texts(letters.column(name).to_pylist()) if name in _BYTES else letters.column(name)
        for name in names
    }
    return pa.table(columns or {"": pa.nulls(len(letters))})


def _texts(values: Iterable[bytes | None]) -> pa.Array:
    """Return valid UTF-8 as text; everything else is null."""
    return pa.array([value if is_text(value) else None for value in values], pa.string())
