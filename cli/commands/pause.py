"""``pause PIPELINE``: drains stop, by a word in the table."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import click

from cli import output
from cli.work import connections_for, load_pipeline
from spark_jobs.protocol.batch import Pause


@click.command("pause")
@click.argument("pipeline")
@click.option("--reason", required=True, help="Why, for whoever finds the pipeline standing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line.")
def command(pipeline: str, reason: str, as_json: bool) -> None:
    """Stop PIPELINE's drains until `./sluice resume`: one under way ends with the batch it is at.

    Upkeep and replays go on. It is kept in the table, so it outlives Dagster's database. Safe to repeat: the
    last reason counts.
    """
    config, chosen = load_pipeline(pipeline)
    with connections_for(config, chosen, "pause") as connections:
        from spark_jobs.acts.pause import pause  # noqa: PLC0415  (pyiceberg: not for `--help`)

        paused = pause(chosen, connections, reason=reason)
    if as_json:
        output.json_line({"pipeline": chosen.name, "paused": dataclasses.asdict(paused)})
    else:
        output.say(f"{chosen.name}: {paused_line(paused)}")


def paused_line(paused: Pause) -> str:
    """Return since when, by whom and why a pipeline is paused."""
    since = datetime.fromtimestamp(paused.at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"paused since {since} by {paused.actor}: {paused.reason}"
