"""``repartition PIPELINE``: the table partitioned as ``partition_by`` says by now."""

from __future__ import annotations

import dataclasses

import click

from cli import output
from cli.work import opened


@click.command("repartition")
@click.argument("pipeline")
@click.option("--reason", required=True, help="Why, for the history.")
@output.json_option
def command(pipeline: str, reason: str, as_json: bool) -> None:
    """Partition PIPELINE's table by what sluice.yaml declares now: files written from then on.

    Older files stay as they are and are read as before. Safe beside drains; refused while a batch is held.
    """
    with opened(pipeline, "repartition", needs_kafka=False) as (chosen, connections):
        from spark_jobs.reshape.repartition import repartition

        done = repartition(chosen, connections, reason=reason)
    if as_json:
        output.json_line({"pipeline": chosen.name, **dataclasses.asdict(done)})
        return
    before, after = (", ".join(terms) or "nothing" for terms in (done.before, done.after))
    output.say(f"{chosen.name}: new files are partitioned by {after}, older ones by {before}")
