"""``rollback PIPELINE --to SNAPSHOT|TIME``: return rows and offsets to an earlier state."""

from __future__ import annotations

import click

from cli.output import Report
from cli.work import Read, Work, pipeline_command, reason_option
from spark_jobs.lake.moments import Moment, parse_moment

_MOMENT = Read("snapshot or time", parse_moment, "neither a snapshot id nor a time like 2026-11-21T10:00")


@pipeline_command("rollback")
@click.option(
    "--to", required=True, type=_MOMENT, metavar="SNAPSHOT|TIME", help="Snapshot or time to return to."
)
@reason_option("Reason, shown by `history`.")
@click.option(
    "--force", is_flag=True, help="Roll back even if Kafka cannot refill all rows, or after a replay."
)
def command(report: Report, work: Work, to: Moment, reason: str, force: bool) -> None:
    """Return PIPELINE's table and its offsets to a snapshot. The next drain fills the table again.

    Safe during drains. Refused if Kafka no longer holds the removed records, if the catalog keeps no history,
    or after a later redrive or change of topic. After a rollback by another tool, name the same
    snapshot to set the offsets too.
    """
    from spark_jobs.acts.rollback import rollback

    snapshot, time_ms = to.snapshot_id, to.at_ms
    done = rollback(*work, to_snapshot=snapshot, to_time_ms=time_ms, reason=reason, force=force)
    name, at, now = work.pipeline.name, done.to_snapshot_id, done.snapshot_id
    report.add(pipeline=name, to_snapshot=at, snapshot=now)
    report.add(undone=list(done.undone), lost=list(done.lost), next_offsets=done.next_offsets)
    report.say(f"{name}: rolled back to snapshot {at} (new snapshot {now})")
    if done.undone:
        report.say(f"  to be drained again: {done.undone}")
    if done.lost:
        report.say(f"  lost, counted as skipped: {done.lost}")
