"""``query PIPELINE "SQL"``: DuckDB over a table: now, as of a snapshot, or with Kafka's records."""

from __future__ import annotations

from collections.abc import Callable

import click

from cli.commands.answers import answering, fresh_answer
from cli.work import opened
from spark_jobs.lake.moments import parse_moment


@click.command("query")
@click.argument("pipeline")
@click.argument("sql")
@click.option(
    "--as-of", metavar="SNAPSHOT|TIME", help="Query the tables as of a snapshot or a time (ISO 8601)."
)
@click.option("--fresh", is_flag=True, help="Include records in Kafka that are not in the table yet.")
@click.option(
    "--after", metavar="P:OFFSET,...", help="Wait until these records are included. Implies --fresh."
)
@click.option(
    "--at", metavar="WATERMARK", help="Query exactly the records of an earlier answer. Implies --fresh."
)
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

    Table names in the SQL: `orders` or `lake.orders` for the table lake.orders (only `orders` if the
    namespace has several parts), `dead_letters` for its dead letters, and the names of routed tables.

    With --fresh, records in Kafka that are not in the table yet are included, each record once. The last line
    on standard error is the watermark: the offsets up to which records are included. It is also in the table
    `sluice_watermark` and in --json, and --at takes it.

    The SQL dialect is DuckDB's, without files, network and extensions. Times are in UTC. Plain output shows
    the first 200 rows; --csv and --json stream all of them.
    """
    is_fresh = fresh or after is not None or at is not None
    if (after is not None and at is not None) or (as_of is not None and is_fresh):
        raise click.UsageError(
            "--as-of cannot be combined with --fresh, --after or --at, nor --after with --at"
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
