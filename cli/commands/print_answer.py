"""An answer's rows as commands print them: a table, one JSON object, or CSV."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cli import output

if TYPE_CHECKING:
    from spark_jobs.query.query import Answer

SHOWN_ROWS = 200
_Command = TypeVar("_Command", bound=Callable[..., Any])


def json_and_csv(command: _Command) -> _Command:
    """Give a command the options ``--json`` and ``--csv``."""
    as_csv = click.option("--csv", "as_csv", is_flag=True, help="Print all rows as CSV with a heading.")
    as_json = click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON object: columns and all rows."
    )
    return as_json(as_csv(command))


def check_outputs(*, as_json: bool, as_csv: bool) -> None:
    """Raise ``UsageError`` for both."""
    if as_json and as_csv:
        raise click.UsageError("--json and --csv are two outputs: choose one")


def print_answer(
    answer: Answer, watermark: str | None, *, as_json: bool, as_csv: bool, is_vertical: bool = False
) -> None:
    """Print the rows as they come; on standard error which records they are of, where Kafka was asked.

    ``is_vertical``: a line for each column of a row, as of rows that are few and wide.
    """
    from spark_jobs.query.written import csv_parts, json_parts

    if as_json or as_csv:
        sys.stdout.writelines(json_parts(answer, watermark) if as_json else csv_parts(answer))
    else:
        _print_rows(answer, is_vertical=is_vertical)
    if watermark is not None:
        click.echo(f"watermark: {watermark}", err=True)


def _print_rows(answer: Answer, *, is_vertical: bool) -> None:
    from spark_jobs.query.written import cell, rows_of

    rows, names = rows_of(answer), answer.schema.names
    shown = [["null" if value is None else cell(value) for value in row] for row in islice(rows, SHOWN_ROWS)]
    if is_vertical:
        width = max(map(len, names))
        lines = (zip(names, row, strict=True) for row in shown)
        text = "\n\n".join("\n".join(f"{name:{width}}  {value}" for name, value in row) for row in lines)
        click.echo(text or "no row has this key")  # rows are never masked
    else:
        kinds = {field.name: str(field.type) for field in answer.schema}
        ids = [name for name, kind in kinds.items() if kind.startswith(("int", "uint", "double", "decimal"))]
        output.table(names, shown, ids=ids, is_data=True)
    if next(rows, None) is not None:
        output.say(f"... the first {SHOWN_ROWS} rows; --csv and --json give all")
