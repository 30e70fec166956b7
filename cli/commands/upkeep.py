"""``upkeep PIPELINE``: does the upkeep its tables are due for, or the one that is named."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from cli import output
from cli.work import connections_for, load_pipeline
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.errors import RetryableError
from spark_jobs.upkeep.kind import UpkeepKind
from spark_jobs.upkeep.registry import BY_NAME

if TYPE_CHECKING:
    from spark_jobs.books.fold import CheckpointResult
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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line.")
def command(pipeline: str, only: str | None, *, dry_run: bool, as_json: bool) -> None:
    """Do the upkeep that is due, or the one that is asked for."""
    config, chosen = load_pipeline(pipeline)
    with connections_for(config, chosen, "upkeep") as connections:
        reasons = {only: "asked for with --only"} if only else _due(chosen, connections)
        for kind, reason in reasons.items():
            output.say(f"{kind}: {reason}")
        if not reasons:
            output.say("nothing is due")
        kinds = [BY_NAME[name] for name in reasons if name != LOG]
        results, failed = _run_all(kinds, chosen, connections, dry_run=dry_run)
        folded = _fold(chosen, connections) if LOG in reasons and not dry_run else None
    print_upkeep(results)
    if folded is not None:
        output.say(
            f"log: {output.count(folded.folded_attempts, 'attempt')} folded, "
            f"{folded.objects_before:,} objects became {folded.objects_after:,}"
        )
    if dry_run:
        output.say("nothing was changed")
    if as_json:
        output.json_line(_as_json(reasons, results, folded))
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
    from spark_jobs.upkeep.due import log_due, upkeep_due  # noqa: PLC0415  (pyiceberg: not for `--help`)

    due = {each.kind.name: each.reason for each in upkeep_due(pipeline, connections)}
    reason = log_due(pipeline, connections)
    return due | ({LOG: reason} if reason else {})


def _run_all(
    kinds: Iterable[UpkeepKind], pipeline: PipelineConfig, connections: Connections, *, dry_run: bool
) -> tuple[list[UpkeepResult], list[RetryableError]]:
    """Run each kind; what one cannot do keeps no other from it: a damaged file may not keep snapshots."""
    results, failed = [], []
    for kind in kinds:
        try:
            result = _run(kind, pipeline, connections, dry_run=dry_run)
        except RetryableError as error:
            failed.append(error)
            continue
        if result is not None:
            results.append(result)
    return results, failed


def _run(
    kind: UpkeepKind, pipeline: PipelineConfig, connections: Connections, *, dry_run: bool
) -> UpkeepResult | None:
    from spark_jobs.upkeep.upkeep import run_upkeep  # noqa: PLC0415  (pyiceberg: not for `--help`)

    if dry_run and not kind.can_rehearse:
        return None
    return run_upkeep(kind, pipeline, connections, _say, is_rehearsal=dry_run)


def _fold(pipeline: PipelineConfig, connections: Connections) -> CheckpointResult:
    from spark_jobs.books.fold import checkpoint  # noqa: PLC0415  (pyiceberg: not for `--help`)

    return checkpoint(pipeline, connections)


def _say(line: str) -> None:
    output.say(f"  {line}")


def _as_json(
    reasons: dict[str, str], results: Iterable[UpkeepResult], folded: CheckpointResult | None
) -> dict[str, Any]:
    tables = [
        {"kind": result.kind, **dataclasses.asdict(table)} for result in results for table in result.tables
    ]
    return {"due": reasons, "tables": tables, "log": dataclasses.asdict(folded) if folded else None}
