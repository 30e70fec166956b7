"""``history PIPELINE``: what was done to its table, by whom and why, newest first."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from cli import output
from cli.work import opened
from spark_jobs.config.file import load_config
from spark_jobs.protocol import mends
from spark_jobs.protocol.batch import BatchKind

if TYPE_CHECKING:
    from spark_jobs.books.history import HistoryLine

DEFAULT_LIMIT = 20
MAX_RANGES_SHOWN = 3
LOGGED_KINDS = [kind.value for kind in BatchKind if kind is not BatchKind.REANCHOR]


@click.command("history")
@click.argument("pipeline")
@click.option(
    "--limit", type=click.IntRange(min=1), default=DEFAULT_LIMIT, show_default=True, help="How many at most."
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(LOGGED_KINDS),
    help="Only these.",
)
@output.json_option
def command(pipeline: str, limit: int, kinds: tuple[str, ...], *, as_json: bool) -> None:
    """List the batches and acts of PIPELINE, newest first: when, what, how many, how long, who and why.

    \b
    landed      its commit is in the table
    held        its files failed a quality gate and wait for a decision
    unfinished  under way, or cut short, with the reason: the next run settles it
    given up    it can never land; its files were deleted

    What is finished comes from the books (the table sluice_batches), the rest from the log. Reads only.
    """  # noqa: D301  (click's mark for a block it must not wrap)
    with opened(pipeline, "history", needs_kafka=False) as (chosen, connections):
        from spark_jobs.books.history import history, unlisted_drains
        from spark_jobs.notices.failures import read_failures

        lines = history(chosen, connections, limit=limit, kinds=kinds)
        unlisted = unlisted_drains(chosen, connections)
        failures = read_failures(load_config().home, chosen.name).last.values()
    failed = {failure.attempt: failure.message for failure in failures}
    whys = {line.entry.attempt: _why(line, failed) for line in lines}
    if as_json:
        output.json_line(
            {
                "pipeline": chosen.name,
                "table": chosen.table,
                "history": [_to_json(line) | {"why": whys[line.entry.attempt]} for line in lines],
                "unlisted_drains": unlisted,
            }
        )
        return
    _print(lines, whys)
    if unlisted:
        output.say(
            f"in neither log nor books: {output.count(unlisted, 'drain')} that the table's snapshots name."
            " The log under `state:` was lost or is another one, or their rows were deleted from the books;"
            f" no row of the table is missing by that: {mends.command('audit', pipeline)} proves it."
        )


def _why(line: HistoryLine, failed: Mapping[str, str]) -> str:
    """Why it is unfinished: by the failure that was noted here, where one was."""
    from spark_jobs.books.history import State

    if line.state is not State.UNFINISHED:
        return ""
    return failed.get(line.entry.attempt, "it is under way, or its process was ended or runs elsewhere")


def _to_json(line: HistoryLine) -> dict[str, Any]:
    entry = dataclasses.asdict(line.entry)
    entry |= {
        **entry.pop("counts"),
        "ranges": [[r.partition, r.start, r.end] for r in line.entry.ranges],
        "balance": line.entry.counts.balance,
        "skipped": line.entry.skipped,
        "started_at": output.when(line.entry.started_at_us),
        "finished_at": output.when(line.entry.finished_at_us),
    }
    return {"state": line.state.value, "phase": line.phase, **entry}


def _print(lines: tuple[HistoryLine, ...], whys: Mapping[str, str]) -> None:
    numbers = ("rows", "dead", "bytes", "files", "ms")
    output.table(
        ("when", "kind", "state", "ranges", *numbers, "snapshot", "actor", "reason"),
        [
            (
                output.when(line.entry.started_at_us),
                line.entry.kind,
                line.state.value
                if line.phase is None or line.entry.is_landed
                else f"{line.state.value} ({line.phase})",
                _ranges(line),
                line.entry.counts.balance.all_rows,
                line.entry.counts.balance.dead_letters,
                line.entry.counts.file_bytes,
                line.entry.counts.data_files + line.entry.counts.dead_letter_files,
                sum(line.entry.durations_ms.values()),
                str(line.entry.snapshot_id or "-"),
                line.entry.actor,
                line.entry.reason or whys[line.entry.attempt] or "-",
            )
            for line in lines
        ],
        numbers=numbers,
    )
    if not lines:
        output.say("nothing was done yet")


def _ranges(line: HistoryLine) -> str:
    ranges = [str(each) for each in line.entry.ranges]
    more = len(ranges) - MAX_RANGES_SHOWN
    shown = " ".join(ranges[:MAX_RANGES_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown or "-"
