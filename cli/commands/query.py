"""``query PIPELINE "SQL"``: DuckDB over the landed table, now, as of a moment, or with Kafka beyond it."""

from __future__ import annotations

from collections.abc import Callable

import click

from cli.commands.answers import answering, fresh_answer
from cli.work import opened
from spark_jobs.lake.moments import parse_moment


@click.command("query")
@click.argument("pipeline")
@click.argument("sql")
@click.option("--as-of", metavar="SNAPSHOT|TIME", help="The tables as they were then; a time in ISO 8601.")
@click.option("--fresh", is_flag=True, help="With what Kafka has beyond the table, each record once.")
@click.option("--after", metavar="P:OFFSET,...", help="Wait until these records are in; means --fresh.")
@click.option("--at", metavar="WATERMARK", help="The records of an earlier answer, no others; means --fresh.")
@answering
def command(
    print_answer: Callable[..., None],
    pipeline: str,
    sql: str,
    *,
    as_of: str | None,
    fresh: bool,
    after: str | None,
    at: str | None,
) -> None:
    """Run SQL over PIPELINE's table and its dead letters. Reads only.

    The table lake.orders is `orders` or `lake.orders` in the SQL (where the namespace has several parts only
    `orders`), its dead letters are `dead_letters`. Tables that rows are routed to have their own names.

    With --fresh both hold what Kafka has beyond the table too (docs/SERVING.md), and `sluice_watermark` says
    up to which offsets. So does the last line, on standard error, and `watermark` in --json: --at takes it.

    The rows are streamed, so memory stays bounded; plain output shows the first 200. It is DuckDB's SQL
    without files, network and extensions; times are shown in UTC.
    """
    is_fresh = fresh or after is not None or at is not None
    if (after is not None and at is not None) or (as_of is not None and is_fresh):
        raise click.UsageError(
            "--as-of is of the lake alone: leave out --fresh, --after, --at; of those two choose one"
        )
    with opened(pipeline, "query", needs_kafka=is_fresh) as work:
        from spark_jobs.hot.watermark import parse_offsets, parse_watermark
        from spark_jobs.query.query import query

        if not is_fresh:
            moment = parse_moment(as_of) if as_of else None
            with query(*work, sql, as_of=moment) as answer:
                print_answer(answer, None)
            return
        offsets = parse_offsets(after) if after is not None else None
        marked = parse_watermark(at) if at is not None else None
        with fresh_answer(*work, sql, after=offsets, at=marked) as (answer, watermark):
            print_answer(answer, watermark)
