"""``query PIPELINE "SQL"``: DuckDB over the landed table, now or as of a snapshot or time."""

from __future__ import annotations

import csv
import datetime as dt
import json
import math
import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from cli import output
from cli.work import opened
from spark_jobs.lake.moments import parse_moment

if TYPE_CHECKING:
    from spark_jobs.query.query import Answer

SHOWN_ROWS = 200


@click.command("query")
@click.argument("pipeline")
@click.argument("sql")
@click.option("--as-of", metavar="SNAPSHOT|TIME", help="The tables as they were then; a time in ISO 8601.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: columns and all rows.")
@click.option("--csv", "as_csv", is_flag=True, help="Print all rows as CSV with a heading.")
def command(pipeline: str, sql: str, as_of: str | None, as_json: bool, as_csv: bool) -> None:
    """Run SQL over PIPELINE's table and its dead letters. Reads only.

    The table lake.orders is `orders` or `lake.orders` in the SQL (where the namespace has several parts only
    `orders`), its dead letters are `dead_letters`.

    The rows are streamed, so memory stays bounded; plain output shows the first 200. It is DuckDB's SQL
    without files, network and extensions; times are shown in UTC.
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv are two outputs: choose one")
    with opened(pipeline, "query", needs_kafka=False) as (chosen, connections):
        from spark_jobs.query.query import query

        moment = parse_moment(as_of) if as_of else None
        with query(chosen, connections, sql, as_of=moment) as answer:
            if as_json:
                _print_json(answer)
            elif as_csv:
                _print_csv(answer)
            else:
                _print_table(answer)


def _rows(answer: Answer) -> Iterator[list[Any]]:
    """Row by row; by position, since two columns may have one name."""
    for batch in answer.batches:
        columns = [column.to_pylist() for column in batch.columns]
        yield from (list(values) for values in zip(*columns, strict=True))


def _print_json(answer: Answer) -> None:
    """Write one object on one line, as the rows come."""
    out = sys.stdout
    columns = [{"name": field.name, "type": str(field.type)} for field in answer.schema]
    out.write(f'{{"columns":{json.dumps(columns, separators=(",", ":"))},"rows":[')
    for number, row in enumerate(_rows(answer)):
        text = json.dumps([_plain(value) for value in row], separators=(",", ":"))
        out.write(f",{text}" if number else text)
    out.write("]}\n")


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
