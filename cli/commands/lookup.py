"""``lookup PIPELINE KEY``: the rows of a record key, the newest first, with Kafka or without."""

from __future__ import annotations

import click

from cli.commands.ask_serve import fresh_lookup
from cli.commands.print_answer import check_outputs, json_and_csv, print_answer
from cli.work import opened


@click.command("lookup")
@click.argument("pipeline")
@click.argument("key")
@click.option("--fresh", is_flag=True, help="With what Kafka has beyond the table, each record once.")
@json_and_csv
def command(pipeline: str, key: str, *, fresh: bool, as_json: bool, as_csv: bool) -> None:
    """Print the rows whose record key (`_kafka_key`) is KEY, the newest first. Reads only.

    Newest by generation, the time that Kafka has of them, and offset. Rows that are routed to other tables
    are not looked for: `query` is. With --fresh records that are not drained yet
    are among them (docs/SERVING.md); the last line on standard error says up to which offsets. Dead letters
    and tombstones are not rows: `trace PIPELINE --key KEY` finds every record of a key.
    """
    check_outputs(as_json=as_json, as_csv=as_csv)
    with opened(pipeline, "query", needs_kafka=fresh) as (chosen, connections):
        from spark_jobs.query.lookup import newest_of_key

        if not fresh:
            found = newest_of_key(chosen, connections, key)
            print_answer(found, None, as_json=as_json, as_csv=as_csv, is_vertical=True)
            return
        with fresh_lookup(chosen, connections, key) as (answer, watermark):
            print_answer(answer, watermark, as_json=as_json, as_csv=as_csv, is_vertical=True)
