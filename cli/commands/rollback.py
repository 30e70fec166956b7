"""``rollback PIPELINE --to SNAPSHOT|TIME``: rows and offsets back to an earlier state, together."""

from __future__ import annotations

import click

from cli import output
from cli.work import Read, opened
from spark_jobs.lake.moments import Moment, parse_moment

_MOMENT = Read("snapshot or time", parse_moment, "neither a snapshot id nor a time like 2026-11-21T10:00")


@click.command("rollback")
@click.argument("pipeline")
@click.option("--to", required=True, type=_MOMENT, metavar="SNAPSHOT|TIME", help="Where to go back.")
@click.option("--reason", required=True, help="Why, for the history.")
@click.option(
    "--force", is_flag=True, help="Also when Kafka cannot refill it all, or replays or redrives came since."
)
@output.json_option
def command(pipeline: str, to: Moment, reason: str, force: bool, as_json: bool) -> None:
    """Set PIPELINE's table back to a snapshot, its offsets with it: the next drain fills it again.

    Safe beside running drains. Refused when Kafka no longer holds what would go, on catalogs that keep no
    history, and across another topic. Naming the snapshot another tool went back to takes its rollback over.
    """
    with opened(pipeline, "rollback") as (chosen, connections):
        from spark_jobs.acts.rollback import rollback

        done = rollback(
            chosen,
            connections,
            to_snapshot=to.snapshot_id,
            to_time_ms=to.at_ms,
            reason=reason,
            force=force,
        )
    if as_json:
        output.json_line(
            {
                "pipeline": chosen.name,
                "to_snapshot": done.to_snapshot_id,
                "snapshot": done.snapshot_id,
                "undone": [str(r) for r in done.undone],
                "lost": [str(r) for r in done.lost],
                "next_offsets": done.next_offsets,
            }
        )
        return
    output.say(f"{chosen.name}: as at snapshot {done.to_snapshot_id} (now snapshot {done.snapshot_id})")
    if done.undone:
        output.say(f"  to be drained again: {done.undone}")
    if done.lost:
        output.say(f"  gone for good, counted as skipped: {done.lost}")
