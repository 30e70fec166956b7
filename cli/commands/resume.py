"""``resume PIPELINE``: drains go on, by a word in the table."""

from __future__ import annotations

import dataclasses

import click

from cli import output
from cli.work import opened
from spark_jobs.protocol.words import paused_line


@click.command("resume")
@click.argument("pipeline")
@click.option("--reason", required=True, help="Why, for the history.")
@output.json_option
def command(pipeline: str, reason: str, as_json: bool) -> None:
    """Let PIPELINE drain again. Safe to repeat: one that is not paused is left alone."""
    with opened(pipeline, "resume") as (chosen, connections):
        from spark_jobs.acts.act import resume

        ended = resume(chosen, connections, reason=reason)
    if as_json:
        output.json_line({"pipeline": chosen.name, "ended": dataclasses.asdict(ended) if ended else None})
    elif ended is None:
        output.say(f"{chosen.name}: it was not paused")
    else:
        output.say(f"{chosen.name}: drains again; it was {paused_line(ended)}")
