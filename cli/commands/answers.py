"""Query results, from a running ``serve`` or computed here, and their output as table, JSON or CSV."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, wraps
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click

from cli import output
from servers.asking import ask_serve
from spark_jobs.config.file import load_config
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.errors import fault

if TYPE_CHECKING:
    from requests import Response

    from spark_jobs.connections.connect import Connections
    from spark_jobs.hot.watermark import Watermark
    from spark_jobs.query.query import Answer

SHOWN_ROWS = 200


@contextmanager
def fresh_answer(
    pipeline: PipelineConfig,
    connections: Connections,
    sql: str,
    *,
    after: Mapping[int, int] | None = None,
    at: Watermark | None = None,
) -> Iterator[tuple[Answer, str]]:
    """Yield an answer and its watermark, from a running ``serve``, or else by reading Kafka once.

    Raises like ``query`` and ``read_fresh``, and ``RetryableError`` (``serve-away``) if ``serve`` listens but
    does not answer.
    """
    from spark_jobs.hot.fresh import read_fresh
    from spark_jobs.query.query import query

    body = {"pipeline": pipeline.name, "sql": sql, "format": "arrow", "after": after or {}}
    with _served("POST", "/v1/query", {**body, "at": str(at) if at else None}) as answered:
        if answered is not None:
            yield answered
            return
    prefix = read_fresh(pipeline, connections, after=after, at=at)
    with query(pipeline, connections, sql, prefix=prefix) as answer:
        yield answer, str(prefix.watermark)


@contextmanager
def fresh_lookup(
    pipeline: PipelineConfig, connections: Connections, key: str
) -> Iterator[tuple[Answer, str]]:
    """Yield the rows of a record key, newest first, and the watermark, like ``fresh_answer``."""
    from spark_jobs.hot.fresh import read_fresh
    from spark_jobs.query.lookup import newest_of_key

    asked_for = urlencode({"key": key, "format": "arrow"})
    with _served("GET", f"/v1/pipelines/{pipeline.name}/lookup?{asked_for}") as answered:
        if answered is not None:
            yield answered
            return
    prefix = read_fresh(pipeline, connections)
    yield newest_of_key(pipeline, connections, key, prefix=prefix), str(prefix.watermark)


@contextmanager
def _served(method: str, path: str, body: Any = None) -> Iterator[tuple[Answer, str] | None]:
    """Yield the answer and watermark of a running ``serve``; None if none runs."""
    answered = ask_serve(load_config(), method, path, body)
    if answered is None:
        yield None
        return
    try:
        yield _streamed(answered), answered.headers["Sluice-Watermark"]
    finally:
        answered.close()


def _streamed(answered: Response) -> Answer:
    import pyarrow as pa

    from spark_jobs.query.query import Answer

    def batches() -> Iterator[pa.RecordBatch]:
        with _whole():
            yield from reader

    with _whole():
        reader = pa.ipc.open_stream(answered.raw)
    return Answer(reader.schema, batches())


@contextmanager
def _whole() -> Iterator[None]:
    import pyarrow as pa
    from urllib3.exceptions import HTTPError

    try:
        yield
    except (OSError, pa.ArrowException, HTTPError) as error:
        raise fault("serve-away", why=f"its answer broke off: {error}") from error


def answering(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--json`` and ``--csv`` to a command and pass it a function that prints an answer."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object with columns and all rows.")
    @click.option("--csv", "as_csv", is_flag=True, help="Print all rows as CSV with a header.")
    @wraps(command)
    def run(*, as_json: bool, as_csv: bool, **typed: Any) -> None:
        if as_json and as_csv:
            raise click.UsageError("--json cannot be combined with --csv")
        command(partial(print_answer, as_json=as_json, as_csv=as_csv), **typed)

    return run


def print_answer(
    answer: Answer, watermark: str | None, *, as_json: bool, as_csv: bool, is_vertical: bool = False
) -> None:
    """Print the rows as they arrive, and the watermark, if any, on standard error.

    ``is_vertical`` prints one line per column, for few and wide rows.
    """
    from spark_jobs.query.answer_parts import csv_parts, json_parts

    if as_json or as_csv:
        sys.stdout.writelines(json_parts(answer, watermark) if as_json else csv_parts(answer))
    else:
        _print_rows(answer, is_vertical=is_vertical)
    if watermark is not None:
        click.echo(f"watermark: {watermark}", err=True)


def _print_rows(answer: Answer, *, is_vertical: bool) -> None:
    from spark_jobs.query.answer_parts import cell, rows_of

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
        output.say(f"... the first {SHOWN_ROWS} rows; use --csv or --json for all")
