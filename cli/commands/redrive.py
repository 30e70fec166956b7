"""``redrive PIPELINE``: sends dead letters through today's configuration once more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from cli import output
from cli.work import opened, tell_dagster
from spark_jobs.drain.batch_run import BatchResult
from spark_jobs.records.decoder import Phase
from spark_jobs.replay.ranges import parse_range

if TYPE_CHECKING:
    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections
    from spark_jobs.replay.redrive_plan import Wanted


@click.command("redrive")
@click.argument("pipeline")
@click.option(
    "--phase",
    "phases",
    multiple=True,
    type=click.Choice([each.value for each in Phase]),
    help="Only those that did not pass this phase; repeatable. With --field and --offsets all must hold.",
)
@click.option(
    "--field", "fields", multiple=True, help="Only those of which this field did not fit; repeatable."
)
@click.option(
    "--offsets", "ranges", multiple=True, metavar="P:START-END", help="Offsets of a partition; repeatable."
)
@click.option("--limit", type=click.IntRange(min=1), help="At most so many, from the lowest offsets on.")
@click.option("--dry-run", is_flag=True, help="Show what they would become; write nothing.")
@click.option("--reason", default="", help="Why; it is kept with the batch.")
@output.json_option
def command(
    pipeline: str,
    *,
    phases: tuple[str, ...],
    fields: tuple[str, ...],
    ranges: tuple[str, ...],
    limit: int | None,
    dry_run: bool,
    reason: str,
    as_json: bool,
) -> None:
    """Send the dead letters of PIPELINE through today's configuration once more, without Kafka.

    What passes becomes a row with the record's own coordinates and leaves the dead letters in the same way;
    what fails again says why, since when and how often. END is not included. Safe beside drains and to
    repeat.
    """
    if not (reason or dry_run):
        raise click.UsageError("--reason is needed: say why the dead letters are sent again.")
    offsets = tuple(map(parse_range, ranges))
    with opened(pipeline, "query" if dry_run else "redrive", needs_kafka=False) as (chosen, connections):
        from spark_jobs.replay.redrive_plan import Wanted

        wanted = Wanted(phases, fields, offsets, limit)
        report = (
            _rehearse(chosen, connections, wanted) if dry_run else _run(chosen, connections, wanted, reason)
        )
    if as_json:
        output.json_line({"pipeline": chosen.name, **report})


def _rehearse(pipeline: PipelineConfig, connections: Connections, wanted: Wanted) -> dict[str, Any]:
    from spark_jobs.replay.trial_rows import try_redrive

    found = try_redrive(pipeline, connections, wanted)
    failing, filtered = found.failing.total(), found.filtered.total()
    output.say(
        f"of {output.count(found.rows + failing + filtered, 'dead letter')} would become rows {found.rows:,},"
        f" fail again {failing:,}{_reasons(found.failing)},"
        f" be filtered {filtered:,}{_reasons(found.filtered)}"
    )
    for example in found.examples:
        output.say(f"  {example}")
    for column in found.columns_added:
        output.say(f"new column {column}")
    _print_left(found.left)
    output.say("nothing was changed; quality gates were not asked")
    return {
        "rows": found.rows,
        "failing": dict(found.failing),
        "filtered": dict(found.filtered),
        "examples": found.examples,
        "columns_added": found.columns_added,
        "left": found.left,
    }


def _run(pipeline: PipelineConfig, connections: Connections, wanted: Wanted, reason: str) -> dict[str, Any]:
    from spark_jobs.replay.redrive import redrive

    def progress(batch: BatchResult, done: int, whole: int) -> None:
        output.say(f"  {batch.batch.batch_id} in snapshot {batch.snapshot_id}; {done:,} of {whole:,}")

    result = redrive(pipeline, connections, wanted, reason=reason, on_progress=progress)
    again = result.dead_letter_phases
    output.say(
        f"sent {output.count(result.balance.offsets, 'dead letter')} again in"
        f" {output.count(len(result.batches), 'commit')}: rows {result.balance.rows:,}, failed again"
        f" {result.balance.dead_letters:,}{_reasons(again)}, filtered {result.balance.get('filtered', 0):,},"
        f" routed {result.balance.get('routed', 0):,}"
    )
    _print_left(result.left)
    tell_dagster(pipeline, result)
    return {
        "batches": [batch.shown() for batch in result.batches],
        "rows": result.balance.rows,
        "failing": again,
        "filtered": result.filtered_reasons,
        "routed": result.balance.get("routed", 0),
        "left": result.left,
    }


def _reasons(counts: Mapping[str, int]) -> str:
    return f" ({', '.join(f'{name} {count:,}' for name, count in counts.items())})" if counts else ""


def _print_left(left: Mapping[str, int]) -> None:
    for reason, letters in left.items():
        output.say(f"left as they are, {reason}: {output.count(letters, 'dead letter')}")
