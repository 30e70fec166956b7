"""``rebuild PIPELINE``: rebuild a mirror from its topic."""

from __future__ import annotations

import click

from cli.commands.replay import show_outcome, show_ranges
from cli.output import Report, verbosely_reported
from cli.work import opened


@click.command("rebuild")
@click.argument("pipeline")
@click.option(
    "--from",
    "from_time",
    metavar="TIME",
    help="Start at the first record at or after this time. The source must have sent all rows since then.",
)
@click.option("--dry-run", is_flag=True, help="Show the offsets that would be read. Reads no record.")
@click.option("--force", is_flag=True, help="Rebuild even if Kafka no longer holds the start of the topic.")
@click.option("--reason", default="", help="Reason, stored with the batch.")
@verbosely_reported
def command(
    report: Report, pipeline: str, *, from_time: str | None, dry_run: bool, force: bool, reason: str
) -> None:
    """Rebuild the mirror of PIPELINE from its topic.

    One commit replaces all rows and dead letters, with the column types that the source has now. Until then
    the mirror is unchanged and drains continue. Safe to repeat.
    """
    if not (reason or dry_run):
        raise click.UsageError("--reason is required: state why the mirror is rebuilt.")
    with opened(pipeline, "replay") as work:
        from spark_jobs.replay.rebuild import begins_at, rebuild, rebuild_ranges

        begins = begins_at(*work, from_time)
        report.add(pipeline=pipeline)
        show_ranges(report, tuple(rebuild_ranges(*work, begins=begins, force=force)))
        if dry_run:
            report.say("nothing was changed")
            return
        result = rebuild(*work, reason=reason, begins=begins, force=force)
        report.add(batch=result.batch.shown())
        show_outcome(report, work, result, f"rebuilt in snapshot {result.batch.snapshot_id}")
