"""``drain PIPELINE``: what a run does, in the foreground, a line per batch."""

from __future__ import annotations

import time

import click

from cli import output
from cli.work import opened, tell_dagster
from spark_jobs.protocol.errors import BatchHeld

UNTIL_CAUGHT_UP_SECONDS = float(7 * 24 * 3600)


@click.command("drain")
@click.argument("pipeline")
def command(pipeline: str) -> int:
    """Drain PIPELINE until it has caught up with what its topic held, one commit a batch.

    Safe beside a running `up` and safe to repeat: a batch that somebody else committed first is a conflict
    (exit code 76), never a duplicate. A batch that fails a quality gate is held and stops it (exit code 65).
    """
    began = time.monotonic()
    with opened(pipeline, "drain") as (chosen, connections):
        output.say(f"draining {chosen.topic} into {chosen.table}")
        from spark_jobs.drain.batch_run import committed_line
        from spark_jobs.drain.drain import drain, ended_line

        result = drain(
            chosen,
            connections,
            budget_seconds=UNTIL_CAUGHT_UP_SECONDS,
            on_progress=lambda batch: output.say(f"  {committed_line(batch)}"),
        )
    output.say(ended_line(result, (time.monotonic() - began) * 1000))
    tell_dagster(chosen, result)
    return BatchHeld.exit_code if result.held else 0
