"""``upkeep PIPELINE``: run the upkeep that is due, or the named kind."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from cli.output import Report, count, fields, seconds, verbosely_reported
from cli.work import Work, opened, tell_dagster
from spark_jobs.protocol.errors import RetryableError
from spark_jobs.upkeep.kind import UpkeepKind
from spark_jobs.upkeep.registry import BY_NAME

if TYPE_CHECKING:
    from spark_jobs.upkeep.upkeep import TableUpkeep, UpkeepResult

LOG = "log"
_FIGURES = ("data_files", "small_files", "bytes", "snapshots", "manifests")
_EFFECTS = {name: kind.effect for name, kind in BY_NAME.items()} | {LOG: "compacts finished attempts"}
_BY_CLOCK = [kind.name for kind in BY_NAME.values() if kind.goes_by_clock]
_WHAT_EACH_DOES = ", ".join(f"{name} {effect}" for name, effect in _EFFECTS.items())
_REST = f"""Without --only, {" and ".join(_BY_CLOCK)} are searched for every time. \
Safe to repeat, also during drains."""
_HELP = f"""Run the upkeep that is due for PIPELINE's table, dead letters, batch history and transaction log.

{textwrap.fill(f"{_WHAT_EACH_DOES}. {_REST}", 106)}
"""


@click.command("upkeep", help=_HELP)
@click.argument("pipeline")
@click.option(
    "--only", type=click.Choice(list(_EFFECTS)), help="Run only this upkeep, even if it is not due."
)
@click.option("--dry-run", is_flag=True, help="Show what is due and what would be deleted. Changes nothing.")
@verbosely_reported
def command(report: Report, pipeline: str, only: str | None, *, dry_run: bool) -> None:
    """Run the upkeep that is due, or the requested kind."""
    with opened(pipeline, "upkeep") as work:
        reasons = {only: "requested with --only"} if only else _due(work)
        for kind, reason in reasons.items():
            report.say(f"{kind}: {reason}")
        if not reasons:
            report.say("nothing is due")
        kinds = [BY_NAME[name] for name in reasons if name != LOG]
        results, failed = _run_all(report, work, kinds, dry_run=dry_run)
        folded = None
        if LOG in reasons and not dry_run:
            from spark_jobs.books.fold import checkpoint

            folded = checkpoint(*work)
    tables = [(result.kind, table) for result in results for table in result.tables]
    if tables:
        names = [name.replace("_", " ") for name in _FIGURES]
        rows = [_row(kind, table) for kind, table in tables]
        report.table(["upkeep", "table", *names, "time", "outcome"], rows, numbers=[*names, "time"])
    for result in results if not dry_run else ():
        tell_dagster(work.pipeline, result)
    if folded is not None:
        report.say(
            f"log: {count(folded.folded_attempts, 'attempt')} compacted, "
            f"{folded.objects_before:,} objects became {folded.objects_after:,}"
        )
    if dry_run:
        report.say("nothing was changed")
    report.add(due=reasons, tables=[{"kind": kind, **fields(table)} for kind, table in tables], log=folded)
    if failed:
        report.end()
        raise failed[0]


def _row(kind: str, table: TableUpkeep) -> list[str]:
    figures = [_change(getattr(table.before, name), getattr(table.after, name)) for name in _FIGURES]
    counts = ", ".join(f"{name.replace('_', ' ')} {n:,}" for name, n in table.done.counts.items() if n)
    outcome = table.done.note or counts or "nothing to do"
    return [kind, table.table, *figures, seconds(table.milliseconds), outcome]


def _change(before: int, after: int) -> str:
    return f"{before:,}" if before == after else f"{before:,} → {after:,}"


def _due(work: Work) -> dict[str, str]:
    """Return the due kinds of upkeep with reasons."""
    from spark_jobs.upkeep.upkeep import log_due, upkeep_due

    due = {each.kind.name: each.reason for each in upkeep_due(*work)}
    reason = log_due(*work)
    return due | ({LOG: reason} if reason else {})


def _run_all(
    report: Report, work: Work, kinds: Iterable[UpkeepKind], *, dry_run: bool
) -> tuple[list[UpkeepResult], list[RetryableError]]:
    """Run each kind of upkeep; a failure of one, as by a damaged file, does not stop the others."""
    from spark_jobs.upkeep.upkeep import run_upkeep

    def say(line: str) -> None:
        report.say(f"  {line}")

    results, failed = [], []
    for kind in kinds:
        if kind.can_rehearse or not dry_run:
            try:
                results.append(run_upkeep(kind, *work, say, is_rehearsal=dry_run))
            except RetryableError as error:
                failed.append(error)
    return results, failed
