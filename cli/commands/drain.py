"""``drain PIPELINE``: what a run does, in the foreground, a line per batch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from cli import output
from cli.commands.pause import paused_line
from cli.work import opened, tell_dagster
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import BatchHeld
from spark_jobs.protocol.source import held_back

if TYPE_CHECKING:
    from spark_jobs.drain.drain import DrainResult

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
        from spark_jobs.drain.drain import drain
        from spark_jobs.drain.progress_lines import committed_line

        result = drain(
            chosen,
            connections,
            budget_seconds=UNTIL_CAUGHT_UP_SECONDS,
            on_progress=lambda batch: output.say(f"  {committed_line(batch)}"),
        )
    took = f", {output.seconds((time.monotonic() - began) * 1000)} in all" if result.batches else ""
    output.say(f"{last_line(result)}{took}")
    tell_dagster(chosen, result)
    return BatchHeld.exit_code if result.held else 0


def last_line(result: DrainResult) -> str:
    """Return how the drain ended, also when there was nothing to do."""
    if result.paused is not None:
        drained = output.count(len(result.batches), "batch", "batches")
        return f"{drained} drained; {paused_line(result.paused)} ({mends.resume(result.pipeline)})"
    lag = f"lag {output.count(result.lag_records, 'record')}"
    if result.undecided:
        lag += f", {held_back(result.undecided)}"
    if result.held:
        return f"{result.held[0].tell(result.pipeline)}; {lag}"
    if not (result.batches or result.recovery.adopted):
        if not result.next_offsets:
            return f"nothing to do: the topic has no record yet, so there is no table {result.table} either"
        return f"nothing to do: {result.table} has everything up to the topic's last stable offsets; {lag}"
    named = result.dead_letter_phases, result.filtered_reasons, result.routed_tables
    told = output.counts(result.balance, *named)
    adopted = f"{output.count(len(result.recovery.adopted), 'batch', 'batches')} adopted, "
    return (
        f"{result.stopped}: {adopted if result.recovery.adopted else ''}"
        f"{output.count(len(result.batches), 'batch', 'batches')} drained "
        f"({told}); {lag}"
    )
