"""``redrive PIPELINE``: process dead letters again with today's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from cli.output import Report, count, told_and_reported
from cli.work import Work, opened, tell_dagster
from spark_jobs.drain.batch_run import BatchResult
from spark_jobs.records.decoder import Phase
from spark_jobs.replay.ranges import parse_range

if TYPE_CHECKING:
    from spark_jobs.replay.redrive_plan import Wanted


@click.command("redrive")
@click.argument("pipeline")
@click.option(
    "--phase",
    "phases",
    multiple=True,
    type=click.Choice([each.value for each in Phase]),
    help="Only dead letters that failed in this phase. Repeatable. All filters must match.",
)
@click.option(
    "--field", "fields", multiple=True, help="Only dead letters in which this field did not fit. Repeatable."
)
@click.option(
    "--offsets",
    "ranges",
    multiple=True,
    metavar="P:START-END",
    help="Only these offsets of a partition. Repeatable.",
)
@click.option(
    "--limit", type=click.IntRange(min=1), help="Maximum number of dead letters, lowest offsets first."
)
@click.option("--dry-run", is_flag=True, help="Show the result. Writes nothing.")
@click.option("--reason", default="", help="Reason, stored with the batch.")
@told_and_reported
def command(
    report: Report,
    pipeline: str,
    *,
    phases: tuple[str, ...],
    fields: tuple[str, ...],
    ranges: tuple[str, ...],
    limit: int | None,
    dry_run: bool,
    reason: str,
) -> None:
    """Process the dead letters of PIPELINE again with today's configuration. Does not read Kafka.

    A record that passes becomes a row with its original partition and offset and is removed from the dead
    letters in the same commit. A record that fails again keeps its dead letter, with the new error, the first
    failure and the number of attempts. END is exclusive. Safe to repeat, also during drains.
    """
    if not (reason or dry_run):
        raise click.UsageError("--reason is required: state why the dead letters are redriven.")
    offsets = tuple(map(parse_range, ranges))
    with opened(pipeline, "query" if dry_run else "redrive", needs_kafka=False) as work:
        from spark_jobs.replay.redrive_plan import Wanted

        wanted = Wanted(phases, fields, offsets, limit)
        report.add(pipeline=pipeline)
        if dry_run:
            _rehearse(report, work, wanted)
        else:
            _run(report, work, wanted, reason)


def _rehearse(report: Report, work: Work, wanted: Wanted) -> None:
    from spark_jobs.replay.trial_rows import try_redrive

    found = try_redrive(*work, wanted)
    failing, filtered = found.failing.total(), found.filtered.total()
    report.say(
        f"of {count(found.rows + failing + filtered, 'dead letter')} would become rows {found.rows:,},"
        f" fail again {failing:,}{_reasons(found.failing)},"
        f" be filtered {filtered:,}{_reasons(found.filtered)}"
    )
    for example in found.examples:
        report.say(f"  {example}")
    for column in found.columns_added:
        report.say(f"new column {column}")
    report.add(found, "rows", "failing", "filtered", "examples", "columns_added")
    _tell_left(report, found.left)
    report.say("nothing was changed; quality gates were not asked")


def _run(report: Report, work: Work, wanted: Wanted, reason: str) -> None:
    from spark_jobs.replay.redrive import redrive

    def progress(batch: BatchResult, done: int, whole: int) -> None:
        report.say(f"  {batch.batch.batch_id} in snapshot {batch.snapshot_id}; {done:,} of {whole:,}")

    result = redrive(*work, wanted, reason=reason, on_progress=progress)
    again, came_to = result.dead_letter_phases, result.balance
    filtered, routed = came_to.get("filtered", 0), came_to.get("routed", 0)
    report.say(
        f"sent {count(came_to.offsets, 'dead letter')} again in {count(len(result.batches), 'commit')}:"
        f" rows {came_to.rows:,}, failed again {came_to.dead_letters:,}{_reasons(again)},"
        f" filtered {filtered:,}, routed {routed:,}"
    )
    report.add(batches=[batch.shown() for batch in result.batches], rows=came_to.rows, failing=again)
    report.add(filtered=result.filtered_reasons, routed=routed)
    _tell_left(report, result.left)
    tell_dagster(work.pipeline, result)


def _reasons(counts: Mapping[str, int]) -> str:
    return f" ({', '.join(f'{name} {number:,}' for name, number in counts.items())})" if counts else ""


def _tell_left(report: Report, left: Mapping[str, int]) -> None:
    report.add(left=left)
    for reason, letters in left.items():
        report.say(f"left as they are, {reason}: {count(letters, 'dead letter')}")
