"""``query PIPELINE "SQL"``: DuckDB over the landed table, now, as of a moment, or with Kafka beyond it."""

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
    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections
    from spark_jobs.hot.prefix import Prefix
    from spark_jobs.query.query import Answer

SHOWN_ROWS = 200


@click.command("query")
@click.argument("pipeline")
@click.argument("sql")
@click.option("--as-of", metavar="SNAPSHOT|TIME", help="The tables as they were then; a time in ISO 8601.")
@click.option("--fresh", is_flag=True, help="With what Kafka has beyond the table, each record once.")
@click.option("--after", metavar="P:OFFSET,...", help="Wait until these records are in; means --fresh.")
@click.option("--at", metavar="WATERMARK", help="The records of an earlier answer, no others; means --fresh.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: columns and all rows.")
@click.option("--csv", "as_csv", is_flag=True, help="Print all rows as CSV with a heading.")
def command(
    pipeline: str,
    sql: str,
    *,
    as_of: str | None,
    fresh: bool,
    after: str | None,
    at: str | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Run SQL over PIPELINE's table and its dead letters. Reads only.

    The table lake.orders is `orders` or `lake.orders` in the SQL (where the namespace has several parts only
    `orders`), its dead letters are `dead_letters`.

    With --fresh both hold what Kafka has beyond the table too (docs/SERVING.md), and `sluice_watermark` says
    up to which offsets. So does the last line, on standard error: it is what --at takes.

    The rows are streamed, so memory stays bounded; plain output shows the first 200. It is DuckDB's SQL
    without files, network and extensions; times are shown in UTC.
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv are two outputs: choose one")
    is_fresh = fresh or after is not None or at is not None
    if (after is not None and at is not None) or (as_of is not None and is_fresh):
        raise click.UsageError("--as-of, --after and --at are three moments: choose one")
    with opened(pipeline, "query", needs_kafka=is_fresh) as (chosen, connections):
        from spark_jobs.query.query import query

        moment = parse_moment(as_of) if as_of else None
        prefix = _prefix(chosen, connections, after, at) if is_fresh else None
        with query(chosen, connections, sql, as_of=moment, prefix=prefix) as answer:
            if as_json:
                _print_json(answer)
            elif as_csv:
                _print_csv(answer)
            else:
                _print_table(answer)
        if prefix is not None:
            click.echo(f"watermark: {prefix.watermark}", err=True)


def _prefix(pipeline: PipelineConfig, connections: Connections, after: str | None, at: str | None) -> Prefix:
    from spark_jobs.hot.fresh import read_fresh
    from spark_jobs.hot.watermark import parse_offsets, parse_watermark

    offsets = None if after is None else parse_offsets(after)
    return read_fresh(pipeline, connections, after=offsets, at=None if at is None else parse_watermark(at))


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
