"""``lookup PIPELINE KEY``: the rows of a record key, the newest first, with Kafka or without."""

from __future__ import annotations

from collections.abc import Callable

import click

from cli.commands.answers import answering, fresh_lookup
from cli.work import opened


@click.command("lookup")
@click.argument("pipeline")
@click.argument("key")
@click.option("--fresh", is_flag=True, help="With what Kafka has beyond the table, each record once.")
@answering
def command(print_answer: Callable[..., None], pipeline: str, key: str, *, fresh: bool) -> None:
    """Print the rows whose record key (`_kafka_key`) is KEY, the newest first. Reads only.

    Newest by generation, the time that Kafka has of them, and offset. Rows that are routed to other tables
    are not looked for: `query` is. With --fresh records that are not drained yet
    are among them (docs/SERVING.md); the last line on standard error says up to which offsets. Dead letters
    and tombstones are not rows: `trace PIPELINE --key KEY` finds every record of a key.
    """
    with opened(pipeline, "query", needs_kafka=fresh) as work:
        from spark_jobs.query.lookup import newest_of_key

        if not fresh:
            print_answer(newest_of_key(*work, key), None, is_vertical=True)
            return
        with fresh_lookup(*work, key) as (answer, watermark):
            print_answer(answer, watermark, is_vertical=True)
