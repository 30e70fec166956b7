"""``redrive PIPELINE``: process dead letters again with today's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from cli.output import Report, count, verbosely_reported
from cli.work import Work, opened, tell_dagster
from spark_jobs.drain.batch_run import BatchResult
from spark_jobs.records.decoder import Phase
from spark_jobs.replay.ranges import parse_range

if TYPE_CHECKING:
    from spark_jobs.replay.redrive_plan import Selection


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
@verbosely_reported
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
        from spark_jobs.replay.redrive_plan import Selection

        wanted = Selection(phases, fields, offsets, limit)
        report.add(pipeline=pipeline)
        if dry_run:
            _rehearse(report, work, wanted)
        else:
            _run(report, work, wanted, reason)


def _rehearse(report: Report, work: Work, wanted: Selection) -> None:
    from spark_jobs.replay.trial_rows import try_redrive

    found = try_redrive(*work, wanted)
    failing, filtered = found.failing.total(), found.filtered.total()
    report.say(
        f"{count(found.rows + failing + filtered, 'dead letter')}: {found.rows:,} would become rows,"
        f" {failing:,} would fail again{_reasons(found.failing)},"
        f" {filtered:,} would be filtered{_reasons(found.filtered)}"
    )
    for example in found.examples:
        report.say(f"  {example}")
    for column in found.columns_added:
        report.say(f"new column {column}")
    report.add(found, "rows", "failing", "filtered", "examples", "columns_added")
    _show_left(report, found.left)
    report.say("nothing was changed; quality gates were not evaluated")


def _run(report: Report, work: Work, wanted: Selection, reason: str) -> None:
    from spark_jobs.replay.redrive import redrive

    def progress(batch: BatchResult, done: int, whole: int) -> None:
        report.say(f"  {batch.batch.batch_id} in snapshot {batch.snapshot_id}; {done:,} of {whole:,}")

    result = redrive(*work, wanted, reason=reason, on_progress=progress)
    again, balance = result.dead_letter_phases, result.balance
    filtered, routed = balance.get("filtered", 0), balance.get("routed", 0)
    report.say(
        f"redrove {count(balance.offsets, 'dead letter')} in {count(len(result.batches), 'commit')}:"
        f" {count(balance.rows, 'row')}, {balance.dead_letters:,} failed again{_reasons(again)},"
        f" {filtered:,} filtered, {routed:,} routed"
    )
    report.add(batches=[batch.shown() for batch in result.batches], rows=balance.rows, failing=again)
    report.add(filtered=result.filtered_reasons, routed=routed)
    _show_left(report, result.left)
    tell_dagster(work.pipeline, result)


def _reasons(counts: Mapping[str, int]) -> str:
    return f" ({', '.join(f'{name} {number:,}' for name, number in counts.items())})" if counts else ""


def _show_left(report: Report, left: Mapping[str, int]) -> None:
    report.add(left=left)
    for reason, letters in left.items():
        report.say(f"unchanged, {reason}: {count(letters, 'dead letter')}")
