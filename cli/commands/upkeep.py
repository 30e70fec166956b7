"""``upkeep PIPELINE``: does the upkeep its tables are due for, or the one that is named."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from cli import output
from cli.work import opened, tell_dagster
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.errors import RetryableError
from spark_jobs.upkeep.kind import UpkeepKind
from spark_jobs.upkeep.registry import BY_NAME

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections
    from spark_jobs.upkeep.upkeep import TableUpkeep, UpkeepResult

LOG = "log"
_FIGURES = ("data_files", "small_files", "bytes", "snapshots", "manifests")
_EFFECTS = {name: kind.effect for name, kind in BY_NAME.items()} | {LOG: "folds finished attempts"}
_BY_CLOCK = [kind.name for kind in BY_NAME.values() if kind.goes_by_clock]
_WHAT_EACH_DOES = ", ".join(f"{name} {effect}" for name, effect in _EFFECTS.items())
_REST = f"""Without --only, {" and ".join(_BY_CLOCK)} are looked for every time. \
Safe beside running drains and safe to repeat."""
_HELP = f"""Tidy up PIPELINE's table, dead letters, books and transaction log, as far as they are due.

{textwrap.fill(f"{_WHAT_EACH_DOES}. {_REST}", 106)}
"""


@click.command("upkeep", help=_HELP)
@click.argument("pipeline")
@click.option("--only", type=click.Choice(list(_EFFECTS)), help="Do this one, due or not.")
@click.option("--dry-run", is_flag=True, help="Say what is due and what could be deleted; change nothing.")
@output.json_option
def command(pipeline: str, only: str | None, *, dry_run: bool, as_json: bool) -> None:
    """Do the upkeep that is due, or the one that is asked for."""
    with opened(pipeline, "upkeep") as (chosen, connections):
        reasons = {only: "asked for with --only"} if only else _due(chosen, connections)
        for kind, reason in reasons.items():
            output.say(f"{kind}: {reason}")
        if not reasons:
            output.say("nothing is due")
        kinds = [BY_NAME[name] for name in reasons if name != LOG]
        results, failed = _run_all(kinds, chosen, connections, dry_run=dry_run)
        folded = None
        if LOG in reasons and not dry_run:
            from spark_jobs.books.fold import checkpoint

            folded = checkpoint(chosen, connections)
    print_upkeep(results)
    for result in results if not dry_run else ():
        tell_dagster(chosen, result)
    if folded is not None:
        output.say(
            f"log: {output.count(folded.folded_attempts, 'attempt')} folded, "
            f"{folded.objects_before:,} objects became {folded.objects_after:,}"
        )
    if dry_run:
        output.say("nothing was changed")
    if as_json:
        tables = [{"kind": r.kind, **dataclasses.asdict(table)} for r in results for table in r.tables]
        log = dataclasses.asdict(folded) if folded else None
        output.json_line({"due": reasons, "tables": tables, "log": log})
    if failed:
        raise failed[0]


def print_upkeep(results: Iterable[UpkeepResult]) -> None:
    """Print a table: for each table and kind the figures before and after, then what else there is to say."""
    rows = [_row(result.kind, table) for result in results for table in result.tables]
    if rows:
        names = [name.replace("_", " ") for name in _FIGURES]
        output.table(["upkeep", "table", *names, "time", "outcome"], rows, numbers=[*names, "time"])


def _row(kind: str, table: TableUpkeep) -> list[str]:
    figures = [_change(getattr(table.before, name), getattr(table.after, name)) for name in _FIGURES]
    counts = ", ".join(f"{name.replace('_', ' ')} {n:,}" for name, n in table.done.counts.items() if n)
    outcome = table.done.note or counts or "nothing to do"
    return [kind, table.table, *figures, output.seconds(table.milliseconds), outcome]


def _change(before: int, after: int) -> str:
    return f"{before:,}" if before == after else f"{before:,} → {after:,}"


def _due(pipeline: PipelineConfig, connections: Connections) -> dict[str, str]:
    """Return what is due and why, by kind."""
    from spark_jobs.upkeep.upkeep import log_due, upkeep_due

    due = {each.kind.name: each.reason for each in upkeep_due(pipeline, connections)}
    reason = log_due(pipeline, connections)
    return due | ({LOG: reason} if reason else {})


def _run_all(
    kinds: Iterable[UpkeepKind], pipeline: PipelineConfig, connections: Connections, *, dry_run: bool
) -> tuple[list[UpkeepResult], list[RetryableError]]:
    """Run each kind; what one cannot do keeps no other from it: a damaged file may not keep snapshots."""
    from spark_jobs.upkeep.upkeep import run_upkeep

    def say(line: str) -> None:
        output.say(f"  {line}")

    results, failed = [], []
    for kind in kinds:
        if kind.can_rehearse or not dry_run:
            try:
                results.append(run_upkeep(kind, pipeline, connections, say, is_rehearsal=dry_run))
            except RetryableError as error:
                failed.append(error)
    return results, failed
