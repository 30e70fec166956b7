"""An answer's rows as commands print them: a table, one JSON object, or CSV."""

from __future__ import annotations

import csv
import datetime as dt
import json
import math
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cli import output

if TYPE_CHECKING:
    from spark_jobs.hot.prefix import Prefix
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


def print_answer(answer: Answer, prefix: Prefix | None, *, as_json: bool, as_csv: bool) -> None:
    """Print the rows as they come; on standard error which records they are of, where Kafka was asked."""
    if as_json:
        _print_json(answer, prefix)
    elif as_csv:
        _print_csv(answer)
    else:
        _print_table(answer)
    if prefix is not None:
        click.echo(f"watermark: {prefix.watermark}", err=True)


def _rows(answer: Answer) -> Iterator[list[Any]]:
    """Row by row; by position, since two columns may have one name."""
    for batch in answer.batches:
        columns = [column.to_pylist() for column in batch.columns]
        yield from (list(values) for values in zip(*columns, strict=True))


def _print_json(answer: Answer, prefix: Prefix | None) -> None:
    """Write one object on one line, as the rows come."""
    out = sys.stdout
    columns = [{"name": field.name, "type": str(field.type)} for field in answer.schema]
    out.write(f'{{"columns":{json.dumps(columns, separators=(",", ":"))},"rows":[')
    for number, row in enumerate(_rows(answer)):
        text = json.dumps([_plain(value) for value in row], separators=(",", ":"))
        out.write(f",{text}" if number else text)
    out.write("]}\n" if prefix is None else f'],"watermark":"{prefix.watermark}"}}\n')


def _print_csv(answer: Answer) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(answer.schema.names)
    for row in _rows(answer):
        writer.writerow([_cell(value) for value in row])


def _print_table(answer: Answer) -> None:
    rows = _rows(answer)
    shown = [["null" if value is None else _cell(value) for value in row] for row in islice(rows, SHOWN_ROWS)]
    kinds = {field.name: str(field.type) for field in answer.schema}
    numbers = [name for name, kind in kinds.items() if kind.startswith(("int", "uint", "double", "decimal"))]
    output.table(answer.schema.names, shown, numbers=numbers)
    if next(rows, None) is not None:
        output.say(f"... the first {SHOWN_ROWS} rows; --csv and --json give all")


def _cell(value: Any) -> Any:
    plain = _plain(value)
    return json.dumps(plain) if isinstance(plain, list | dict) else plain


def _plain(value: Any) -> Any:
    """Return the value as JSON has it: times in ISO 8601, exact numbers as text, bytes as text or in hex."""
    match value:
        case dict():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case float():
            return value if math.isfinite(value) else str(value)
        case None | bool() | int() | str():
            return value
    return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.hex()
