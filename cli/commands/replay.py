"""``replay PIPELINE``: read offset ranges again and replace their rows."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from cli.output import Report, count, counts, verbosely_reported
from cli.work import Work, opened, tell_dagster
from spark_jobs.drain.batch_run import BatchResult
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.replay.ranges import cut_at, parse_moment, parse_range, span_ranges

if TYPE_CHECKING:
    from spark_jobs.replay.plan import ReplayPlan
    from spark_jobs.replay.rebuild import RebuildResult
    from spark_jobs.replay.replay import ReplayResult


@click.command("replay")
@click.argument("pipeline")
@click.option(
    "--range", "ranges", multiple=True, metavar="P:START-END", help="Offsets of a partition. Repeatable."
)
@click.option("--from", "from_time", metavar="TIME", help="Start at the first record at or after this time.")
@click.option("--to", "to_time", metavar="TIME", help="End before the first record at or after this time.")
@click.option("--all", "is_all", is_flag=True, help="All drained offsets that Kafka still holds.")
@click.option(
    "--dry-run", is_flag=True, help="Show the offsets and files that would be replaced. Reads no record."
)
@click.option(
    "--diff",
    is_flag=True,
    help="Show the rows and columns that would change. With --reason, ask and then replace.",
)
@click.option("--yes", is_flag=True, help="Do not ask after --diff.")
@click.option("--force", is_flag=True, help="Also remove rows whose records Kafka no longer holds.")
@click.option("--reason", default="", help="Reason, stored with the batch.")
@verbosely_reported
def command(
    report: Report,
    pipeline: str,
    *,
    ranges: tuple[str, ...],
    from_time: str | None,
    to_time: str | None,
    is_all: bool,
    dry_run: bool,
    diff: bool,
    yes: bool,
    force: bool,
    reason: str,
) -> None:
    """Read drained offsets of PIPELINE again with today's configuration, and replace exactly their rows.

    Give --range, --all, or --from and --to. Without --to the replay ends at the last drained offset, without
    --from it starts at the table's first record. END is exclusive. The dead letters of the ranges are
    replaced too.

    Offsets that are not drained yet are left to the next drain. A --range that Kafka no longer holds is
    refused. Safe to repeat, also during drains.
    """
    if [bool(ranges), is_all, bool(from_time or to_time)].count(True) != 1:
        raise click.UsageError("give one of --range (repeatable), --all, or --from and --to (one or both).")
    selected = tuple(map(parse_range, ranges))
    span = [parse_moment(text) if text else None for text in (from_time, to_time)]
    if not (reason or dry_run or (diff and not yes)):
        raise click.UsageError("--reason is required: state why the rows are replaced.")
    with opened(pipeline, "replay") as work:
        from spark_jobs.replay.plan import plan_replay

        plan = plan_replay(*work, selected or _ranges(report, work, *span))
        _show_plan(report, plan)
        _show_compaction(report, work)
        if diff:
            _show_diff(report, work, plan)
        if dry_run or not reason or (diff and not (yes or _agreed(report))):
            report.say("nothing was changed")
        else:
            _run(report, work, plan.ranges, reason, force=force)


def _ranges(report: Report, work: Work, from_ms: int | None, to_ms: int | None) -> tuple[OffsetRange, ...]:
    from spark_jobs.connections.connect import load_drained

    topic, admin = work.pipeline.topic, work.connections.admin
    source = admin.source_state(topic)
    # A partition without a record at or after a time has none from its end on.
    starts, ends = (
        None if time is None else source.end | admin.offsets_for_times(topic, time)
        for time in (from_ms, to_ms)
    )
    found, gone = span_ranges(progress_of(load_drained(*work)), source, starts, ends)
    for r in gone:
        report.say(f"Kafka no longer holds {r}: its rows are kept")
    if not found:
        raise fault("replay-span-empty", topic=topic)
    return found


def show_ranges(report: Report, ranges: Sequence[OffsetRange]) -> None:
    """Print the offsets that are read again."""
    report.table(
        ("partition", "from", "to", "records"),
        [(r.partition, r.start, r.end, len(r)) for r in ranges],
        numbers=("records",),
        ids=("partition", "from", "to"),
    )
    report.add(ranges=ranges, records=sum(map(len, ranges)))


def _show_plan(report: Report, plan: ReplayPlan) -> None:
    from spark_jobs.replay.plan import files_to_replace

    files = files_to_replace(plan)
    show_ranges(report, plan.ranges)
    ahead, beyond = cut_at(plan.ahead, plan.source.end)
    for r in ahead:
        report.say(f"not drained yet, left to the next drain: {r}")
    for r in beyond:
        report.say(f"after the end of the topic, nothing to read: {r}")
    report.say(
        f"{count(plan.records, 'offset')} are read again; of the data files {files.inside} are removed"
        f" and {files.straddling} are rewritten without these rows"
    )
    report.add(ahead=ahead, beyond_end=beyond, files_dropped=files.inside, files_rewritten=files.straddling)


def _show_compaction(report: Report, work: Work) -> None:
    from spark_jobs.replay.plan import is_compacted

    topic, compacted = work.pipeline.topic, None
    try:
        compacted = is_compacted(*work)
    except SluiceError as error:
        report.say(f"cannot determine whether Kafka compacts {topic} ({error.code})")
    if compacted:
        report.say(f"{topic} is compacted: rows whose records no longer exist are kept, except with --force")
    report.add(compacted=compacted)


def _show_diff(report: Report, work: Work, plan: ReplayPlan) -> None:
    from spark_jobs.replay.diff import diff_replay

    def progress(done: int, whole: int) -> None:
        report.say(f"  compared {done:,} of {whole:,} offsets")

    found = diff_replay(*work, plan, on_progress=progress)
    report.add(diff=found)
    report.heading("What would change")
    rows = ("rows_same", "rows_added", "rows_removed", "rows_changed")
    numbers = (*rows, "dead_letters_added", "dead_letters_removed", "records_gone", "filtered")
    titles = [name.replace("_", " ") for name in numbers]
    report.table(titles, [[getattr(found, name) for name in numbers]], numbers=titles)
    if found.records_gone:
        gone = count(found.records_gone, "row")
        report.say(f"{gone} or dead letters no longer have a record in Kafka: only --force removes them")
    for column in found.columns_added:
        report.say(f"new column {column}")
    if found.changed_by_column:
        changed = found.changed_by_column.most_common()
        report.table(("column", "values changed"), changed, numbers=("values changed",))
        values = [(each.at, each.column, each.before, each.after) for each in found.examples]
        report.table(("partition:offset", "column", "before", "after"), values)


def _agreed(report: Report) -> bool:
    """Ask for confirmation; return False without a terminal."""
    if not sys.stdin.isatty():
        report.say("standard input is not a terminal: add --yes to replace the rows")
        return False
    return click.confirm("Replace these rows?", default=False)


def _run(report: Report, work: Work, ranges: Sequence[OffsetRange], reason: str, *, force: bool) -> None:
    from spark_jobs.replay.replay import replay

    def progress(batch: BatchResult, done: int, whole: int) -> None:
        in_it = f"{batch.batch.ranges} in snapshot {batch.snapshot_id}"
        report.say(f"  {batch.batch.batch_id}: {in_it}; {done:,} of {whole:,}")

    result = replay(*work, ranges, reason=reason, force=force, on_progress=progress)
    report.add(batches=[batch.shown() for batch in result.batches])
    commits = count(len(result.batches), "commit")
    show_outcome(report, work, result, f"replayed {' '.join(map(str, result.ranges))} in {commits}")


def show_outcome(report: Report, work: Work, result: ReplayResult | RebuildResult, how: str) -> None:
    """Print the result and report it to Dagster."""
    report.say(f"{how}: {counts(result.balance)}")
    report.add(**{term: offsets for term, offsets in result.balance.items() if term != "gaps"})
    tell_dagster(work.pipeline, result)
