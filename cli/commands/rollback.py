"""``rollback PIPELINE --to SNAPSHOT|TIME``: rows and offsets back to an earlier state, together."""

from __future__ import annotations

import click

from cli.output import Report
from cli.work import Read, Work, pipeline_command, reason_option
from spark_jobs.lake.moments import Moment, parse_moment

_MOMENT = Read("snapshot or time", parse_moment, "neither a snapshot id nor a time like 2026-11-21T10:00")


@pipeline_command("rollback")
@click.option("--to", required=True, type=_MOMENT, metavar="SNAPSHOT|TIME", help="Where to go back.")
@reason_option("Why, for the history.")
@click.option("--force", is_flag=True, help="Also when Kafka cannot refill it all, or replays came since.")
def command(report: Report, work: Work, to: Moment, reason: str, force: bool) -> None:
    """Set PIPELINE's table back to a snapshot, its offsets with it: the next drain fills it again.

    Safe beside running drains. Refused when Kafka no longer holds what would go, on catalogs that keep no
    history, across a redrive, and across another topic. Naming the snapshot another tool went back to takes
    its rollback over.
    """
    from spark_jobs.acts.rollback import rollback

    snapshot, time_ms = to.snapshot_id, to.at_ms
    done = rollback(*work, to_snapshot=snapshot, to_time_ms=time_ms, reason=reason, force=force)
    name, at, now = work.pipeline.name, done.to_snapshot_id, done.snapshot_id
    report.add(pipeline=name, to_snapshot=at, snapshot=now)
    report.add(undone=list(done.undone), lost=list(done.lost), next_offsets=done.next_offsets)
    report.say(f"{name}: as at snapshot {at} (now snapshot {now})")
    if done.undone:
        report.say(f"  to be drained again: {done.undone}")
    if done.lost:
        report.say(f"  gone for good, counted as skipped: {done.lost}")
