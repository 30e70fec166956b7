"""``pause PIPELINE``: drains stop, by a word in the table."""

from __future__ import annotations

import dataclasses

import click

from cli import output
from cli.work import opened
from spark_jobs.protocol.words import paused_line


@click.command("pause")
@click.argument("pipeline")
@click.option("--reason", required=True, help="Why, for whoever finds the pipeline standing.")
@output.json_option
def command(pipeline: str, reason: str, as_json: bool) -> None:
    """Stop PIPELINE's drains until `./sluice resume`: one under way ends with the batch it is at.

    Upkeep and replays go on. It is kept in the table, so it outlives Dagster's database. Safe to repeat: the
    last reason counts.
    """
    with opened(pipeline, "pause") as (chosen, connections):
        from spark_jobs.acts.act import pause

        paused = pause(chosen, connections, reason=reason)
    if as_json:
        output.json_line({"pipeline": chosen.name, "paused": dataclasses.asdict(paused)})
    else:
        output.say(f"{chosen.name}: {paused_line(paused)}")
