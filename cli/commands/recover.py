"""``recover [PIPELINE]``: settle what a crash left unfinished, without draining."""

from __future__ import annotations

import click

from cli import output
from cli.work import connections_for, pipelines_named
from spark_jobs.config.file import load_config
from spark_jobs.recovery.decide import RecoveryResult


@click.command("recover")
@click.argument("pipeline", required=False)
def command(pipeline: str | None) -> None:
    """Settle unfinished attempts of PIPELINE, or of all pipelines.

    Attempts whose commit is in the table are marked as landed. Attempts with complete files are committed.
    The files of all others are deleted. Every drain does this first, except for replays, which the next
    replay settles.
    """
    from spark_jobs.notices.sender import send_pending
    from spark_jobs.recovery.recover import recover
    from spark_jobs.replay.replay import settle_left_replays

    config = load_config()
    for chosen in pipelines_named(config, pipeline):
        with connections_for(config, chosen, "recover") as connections:
            # A replay that is alive ends with a conflict, as a drain would.
            result = settle_left_replays(chosen, connections).then(recover(chosen, connections))
            send_pending(chosen, connections)
        output.say(f"{chosen.name}: {summary_of(result)}")


def summary_of(result: RecoveryResult) -> str:
    """Return the result of a recovery in one line."""
    found = (
        (len(result.marked), "marked as landed"),
        (len(result.adopted), "committed from their files"),
        (len(result.swept), f"given up ({output.count(result.swept_files, 'file')} deleted)"),
        (len(result.left), "left for the next drain"),
    )
    parts = [f"{output.count(number, 'attempt')} {what}" for number, what in found if number]
    return ", ".join(parts) or "nothing to recover"
