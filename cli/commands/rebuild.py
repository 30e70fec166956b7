"""``rebuild PIPELINE``: makes a mirror anew from its topic."""

from __future__ import annotations

import click

from cli.commands.replay import tell_outcome, tell_ranges
from cli.output import Report, told_and_reported
from cli.work import opened


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
@told_and_reported
def command(
    report: Report, pipeline: str, *, from_time: str | None, dry_run: bool, force: bool, reason: str
) -> None:
    """Fold all changes in the topic of PIPELINE anew, and put what they come to in the place of its mirror.

    One commit takes the place of all rows and dead letters, with columns of the types that the source gave
    them since; until then the mirror is as it was, and drains go on. Safe beside them and to repeat.
    """
    if not (reason or dry_run):
        raise click.UsageError("--reason is needed: say why the mirror is made anew.")
    with opened(pipeline, "replay") as work:
        from spark_jobs.replay.rebuild import begins_at, rebuild, rebuild_ranges

        begins = begins_at(*work, from_time)
        report.add(pipeline=pipeline)
        tell_ranges(report, tuple(rebuild_ranges(*work, begins=begins, force=force)))
        if dry_run:
            report.say("nothing was changed")
            return
        result = rebuild(*work, reason=reason, begins=begins, force=force)
        report.add(batch=result.batch.shown())
        tell_outcome(report, work, result, f"made anew in snapshot {result.batch.snapshot_id}")
