"""``drain PIPELINE``: drain in the foreground, with a line per batch."""

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
    """Drain PIPELINE until it has caught up, with one commit per batch.

    Safe to repeat, also while `up` runs. If another process commits a batch first, this one ends with a
    conflict (exit code 76) and writes no duplicate. A batch that fails a quality gate is held, and the drain
    ends with exit code 65.
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
