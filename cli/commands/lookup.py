"""``lookup PIPELINE KEY``: the rows of a record key, newest first."""

from __future__ import annotations

from collections.abc import Callable

import click

from cli.commands.answers import answering, fresh_lookup
from cli.work import opened


@click.command("lookup")
@click.argument("pipeline")
@click.argument("key")
@click.option("--fresh", is_flag=True, help="Include records in Kafka that are not in the table yet.")
@answering
def command(print_answer: Callable[..., None], pipeline: str, key: str, *, fresh: bool) -> None:
    """Print the rows whose record key (`_kafka_key`) is KEY, newest first. Reads only.

    Rows are ordered by generation, Kafka time and offset. Rows routed to other tables are not included; use
    `query` for them. Dead letters and tombstones are not rows; use `trace PIPELINE --key KEY` for them.

    With --fresh, records that are not drained yet are included. The last line on standard error is the
    watermark: the offsets up to which records are included.
    """
    with opened(pipeline, "query", needs_kafka=fresh) as work:
        from spark_jobs.query.lookup import newest_of_key

        if not fresh:
            print_answer(newest_of_key(*work, key), None, is_vertical=True)
            return
        with fresh_lookup(*work, key) as (answer, watermark):
            print_answer(answer, watermark, is_vertical=True)
