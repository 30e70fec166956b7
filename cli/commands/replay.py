"""``replay PIPELINE``: drains offset ranges again and puts their rows in the place of the earlier ones."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from cli import output
from cli.work import opened, tell_dagster
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.drain.batch_run import BatchResult
from spark_jobs.protocol.errors import ConfigError, SluiceError
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.replay.ranges import cut_at, parse_moment, parse_range

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections
    from spark_jobs.replay.diff import ReplayDiff
    from spark_jobs.replay.plan import ReplayPlan


@click.command("replay")
@click.argument("pipeline")
@click.option(
    "--range", "ranges", multiple=True, metavar="P:START-END", help="Offsets of a partition; repeatable."
)
@click.option("--from", "from_time", metavar="TIME", help="From the first record at or after this time.")
@click.option("--to", "to_time", metavar="TIME", help="Up to the first record at or after this time.")
@click.option("--all", "is_all", is_flag=True, help="All that was drained and that Kafka still holds.")
@click.option("--dry-run", is_flag=True, help="Show what would be done; read no record.")
@click.option(
    "--diff", is_flag=True, help="Show the rows and columns that would change; with --reason, then ask."
)
@click.option("--yes", is_flag=True, help="Do not ask after --diff.")
@click.option("--force", is_flag=True, help="Also replace rows whose records Kafka no longer holds.")
@click.option("--reason", default="", help="Why; it is kept with the batch.")
@output.json_option
def command(
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
    as_json: bool,
) -> None:
    """Read drained offsets of PIPELINE again, with today's configuration, and replace exactly their rows.

    Give --range, --all, or --from and --to; without --to all that was drained since, without --from from the
    table's first record. The dead letters of the ranges are replaced with them; the next offsets stay. END is
    not included. What is not drained yet is left to the live flow; a --range that Kafka no longer holds is
    refused. Safe beside drains and to repeat.
    """
    if [bool(ranges), is_all, bool(from_time or to_time)].count(True) != 1:
        raise click.UsageError("give --range (repeatable), --all, or --from, --to or both.")
    wanted = tuple(map(parse_range, ranges))
    span = [parse_moment(text) if text else None for text in (from_time, to_time)]
    if not (reason or dry_run or (diff and not yes)):
        raise click.UsageError("--reason is needed: say why the range is replaced.")
    with opened(pipeline, "replay") as (chosen, connections):
        from spark_jobs.replay.plan import plan_replay

        plan = plan_replay(chosen, connections, wanted or _ranges(chosen, connections, *span))
        report = _print_plan(plan) | _print_compaction(chosen, connections)
        if diff:
            report["diff"] = _print_diff(chosen, connections, plan)
        if dry_run or not reason or (diff and not (yes or _agreed())):
            output.say("nothing was changed")
        else:
            report |= _run(chosen, connections, plan, reason, force=force)
    if as_json:
        output.json_line(report)


def _ranges(
    pipeline: PipelineConfig, connections: Connections, from_ms: int | None, to_ms: int | None
) -> tuple[OffsetRange, ...]:
    from spark_jobs.connections.tables import load_drained
    from spark_jobs.lake.tables import progress_of
    from spark_jobs.replay.ranges import span_ranges

    source = connections.admin.source_state(pipeline.topic)
    # A partition without a record at or after a time has none from its end on.
    starts, ends = (
        None if time is None else source.end | connections.admin.offsets_for_times(pipeline.topic, time)
        for time in (from_ms, to_ms)
    )
    found, gone = span_ranges(progress_of(load_drained(pipeline, connections)), source, starts, ends)
    for r in gone:
        output.say(f"Kafka no longer holds {r}: its rows stay as they are")
    if not found:
        raise ConfigError(
            "Kafka holds no record of that span",
            code="replay-span-empty",
            hint="Times are Kafka's record times; widen --from and --to.",
            topic=pipeline.topic,
        )
    return found


def print_ranges(ranges: Sequence[OffsetRange]) -> dict[str, Any]:
    """Print which offsets are read again, and return them for ``--json``."""
    output.table(
        ("partition", "from", "to", "records"),
        [(r.partition, r.start, r.end, len(r)) for r in ranges],
        numbers=("records",),
        ids=("partition", "from", "to"),
    )
    return {"ranges": [str(r) for r in ranges], "records": sum(map(len, ranges))}


def _print_plan(plan: ReplayPlan) -> dict[str, Any]:
    from spark_jobs.replay.plan import files_to_replace

    files = files_to_replace(plan)
    report = print_ranges(plan.ranges)
    ahead, beyond = cut_at(plan.ahead, plan.source.end)
    for r in ahead:
        output.say(f"left to the live flow, not drained yet: {r}")
    for r in beyond:
        output.say(f"past the end of the topic, nothing to read: {r}")
    output.say(
        f"{output.count(plan.records, 'offset')} are read again; of the table's files {files.inside} are "
        f"dropped and {files.straddling} written again without these rows"
    )
    return {
        **report,
        "ahead": [str(r) for r in ahead],
        "beyond_end": [str(r) for r in beyond],
        "files_dropped": files.inside,
        "files_rewritten": files.straddling,
    }


def _print_compaction(pipeline: PipelineConfig, connections: Connections) -> dict[str, Any]:
    from spark_jobs.replay.plan import is_compacted

    try:
        compacted = is_compacted(pipeline, connections)
    except SluiceError as error:
        output.say(f"whether Kafka compacts {pipeline.topic} is not told ({error.code})")
        return {"compacted": None}
    if compacted:
        output.say(
            f"{pipeline.topic} is compacted: rows whose records are gone stay, unless --force is given"
        )
    return {"compacted": compacted}


def _print_diff(pipeline: PipelineConfig, connections: Connections, plan: ReplayPlan) -> dict[str, Any]:
    from spark_jobs.replay.diff import diff_replay

    def progress(done: int, whole: int) -> None:
        output.say(f"  compared {done:,} of {whole:,} offsets")

    found = diff_replay(pipeline, connections, plan, on_progress=progress)
    output.heading("What would change")
    rows = ("rows_same", "rows_added", "rows_removed", "rows_changed")
    counts = (*rows, "dead_letters_added", "dead_letters_removed", "records_gone", "filtered")
    titles = [name.replace("_", " ") for name in counts]
    output.table(titles, [[getattr(found, name) for name in counts]], numbers=titles)
    if found.records_gone:
        gone = output.count(found.records_gone, "row")
        output.say(f"{gone} or dead letters have no record in Kafka any more: only --force replaces them")
    for column in found.columns_added:
        output.say(f"new column {column}")
    _print_changes(found)
    return {**dataclasses.asdict(found), "changed_by_column": dict(found.changed_by_column)}


def _print_changes(found: ReplayDiff) -> None:
    if not found.changed_by_column:
        return
    output.table(
        ("column", "values changed"), found.changed_by_column.most_common(), numbers=("values changed",)
    )
    output.table(
        ("partition:offset", "column", "before", "after"),
        [(change.at, change.column, change.before, change.after) for change in found.examples],
    )


def _agreed() -> bool:
    """Ask; without a terminal nobody can answer, and nothing is published."""
    if not sys.stdin.isatty():
        output.say("no terminal to ask on: add --yes to publish this")
        return False
    return click.confirm("Replace these rows?", default=False)


def _run(
    pipeline: PipelineConfig, connections: Connections, plan: ReplayPlan, reason: str, *, force: bool
) -> dict[str, Any]:
    from spark_jobs.replay.replay import replay

    def progress(batch: BatchResult, done: int, whole: int) -> None:
        output.say(
            f"  {batch.batch.batch_id}: {batch.batch.ranges} in snapshot {batch.snapshot_id};"
            f" {done:,} of {whole:,}"
        )

    result = replay(pipeline, connections, plan.ranges, reason=reason, force=force, on_progress=progress)
    output.say(
        f"replayed {' '.join(map(str, result.ranges))} in {output.count(len(result.batches), 'commit')}: "
        f"{output.counts(result.balance)}"
    )
    tell_dagster(pipeline, result)
    return {
        "batches": [batch.shown() for batch in result.batches],
        **{term: offsets for term, offsets in result.balance.items() if term != "gaps"},
    }
