"""``rollback PIPELINE --to SNAPSHOT|TIME``: rows and offsets back to an earlier state, together."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from cli import output
from cli.work import connections_for, load_pipeline

if TYPE_CHECKING:
    from spark_jobs.acts.rollback import RolledBack


class SnapshotOrTime(click.ParamType[int | datetime]):
    """A snapshot id, or a time: ``2026-11-21T10:00``, in UTC unless it says otherwise."""

    name = "snapshot or time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int | datetime:
        """Digits are a snapshot id."""
        if str(value).isdigit():
            return int(value)
        try:
            time = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is neither a snapshot id nor a time like 2026-11-21T10:00", param, ctx)
        return time if time.tzinfo else time.replace(tzinfo=UTC)


@click.command("rollback")
@click.argument("pipeline")
@click.option("--to", required=True, type=SnapshotOrTime(), metavar="SNAPSHOT|TIME", help="Where to go back.")
@click.option("--reason", required=True, help="Why, for the history.")
@click.option("--force", is_flag=True, help="Also when Kafka cannot refill it all, or replays came since.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line.")
def command(pipeline: str, to: int | datetime, reason: str, force: bool, as_json: bool) -> None:
    """Set PIPELINE's table back to a snapshot, its offsets with it: the next drain fills it again.

    Safe beside running drains. Refused when Kafka no longer holds what would go, on catalogs that keep no
    history, and across another topic. Naming the snapshot another tool went back to takes its rollback over.
    """
    config, chosen = load_pipeline(pipeline)
    with connections_for(config, chosen, "rollback") as connections:
        from spark_jobs.acts.rollback import rollback  # noqa: PLC0415  (pyiceberg: not for `--help`)

        done = rollback(
            chosen,
            connections,
            to_snapshot=to if isinstance(to, int) else None,
            to_time_ms=round(to.timestamp() * 1000) if isinstance(to, datetime) else None,
            reason=reason,
            force=force,
        )
    if as_json:
        output.json_line({"pipeline": chosen.name, **_to_json(done)})
        return
    output.say(f"{chosen.name}: as at snapshot {done.to_snapshot_id} (now snapshot {done.snapshot_id})")
    if done.undone:
        output.say(f"  to be drained again: {done.undone}")
    if done.lost:
        output.say(f"  gone for good, counted as skipped: {done.lost}")


def _to_json(done: RolledBack) -> dict[str, object]:
    return {
        "to_snapshot": done.to_snapshot_id,
        "snapshot": done.snapshot_id,
        "undone": [str(r) for r in done.undone],
        "lost": [str(r) for r in done.lost],
        "next_offsets": done.next_offsets,
    }
