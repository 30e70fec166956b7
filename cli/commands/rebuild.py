"""``rebuild PIPELINE``: makes a mirror anew from its topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cli import output
from cli.commands.replay import print_ranges
from cli.work import opened, tell_dagster

if TYPE_CHECKING:
    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections


@click.command("rebuild")
@click.argument("pipeline")
@click.option(
    "--from",
    "from_time",
    metavar="TIME",
    help="Begin at the first record at or after this time: the source has told all its rows anew since.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be read; read no record.")
@click.option("--force", is_flag=True, help="Also where Kafka no longer holds the topic's beginning.")
@click.option("--reason", default="", help="Why; it is kept with the batch.")
@output.json_option
def command(
    pipeline: str, *, from_time: str | None, dry_run: bool, force: bool, reason: str, as_json: bool
) -> None:
    """Fold all changes in the topic of PIPELINE anew, and put what they come to in the place of its mirror.

    One commit takes the place of all rows and dead letters, with columns of the types that the source gave
    them since; until then the mirror is as it was, and drains go on. Safe beside them and to repeat.
    """
    if not (reason or dry_run):
        raise click.UsageError("--reason is needed: say why the mirror is made anew.")
    with opened(pipeline, "replay") as (chosen, connections):
        from spark_jobs.replay.rebuild import begins_at, rebuild_ranges

        begins = begins_at(chosen, connections, from_time)
        ranges = rebuild_ranges(chosen, connections, begins=begins, force=force)
        report = print_ranges(tuple(ranges))
        if dry_run:
            output.say("nothing was changed")
        else:
            report |= _run(chosen, connections, reason, begins, force=force)
    if as_json:
        output.json_line({"pipeline": chosen.name, **report})


def _run(
    pipeline: PipelineConfig,
    connections: Connections,
    reason: str,
    begins: dict[int, int] | None,
    *,
    force: bool,
) -> dict[str, Any]:
    from spark_jobs.replay.rebuild import rebuild

    result = rebuild(pipeline, connections, reason=reason, begins=begins, force=force)
    output.say(f"made anew in snapshot {result.batch.snapshot_id}: {output.counts(result.balance)}")
    tell_dagster(pipeline, result)
    return {
        "batch": result.batch.shown(),
        **{term: offsets for term, offsets in result.balance.items() if term != "gaps"},
    }
