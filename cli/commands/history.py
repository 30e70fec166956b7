"""``history PIPELINE``: batches and operator actions of a table, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from cli.output import Report, count, fields, when
from cli.work import Work, limit_option, pipeline_command
from spark_jobs.config.file import load_config
from spark_jobs.protocol import mends
from spark_jobs.protocol.work import WORKS

if TYPE_CHECKING:
    from spark_jobs.books.history import HistoryLine

MAX_RANGES_SHOWN = 3
LOGGED_KINDS = sorted(WORKS.keys() - {"reanchor"})


@pipeline_command("history", needs_kafka=False)
@limit_option("Maximum number of lines.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(LOGGED_KINDS),
    help="Only lines of this kind. Repeatable.",
)
def command(report: Report, work: Work, limit: int, kinds: tuple[str, ...]) -> None:
    """List batches and operator actions of PIPELINE, newest first. Reads only.

    \b
    landed      the commit is in the table
    held        the batch failed a quality gate and waits for a decision
    unfinished  running or interrupted; the next run finishes or removes it
    given up    it can no longer be committed; its files were deleted

    Finished entries come from the table sluice_batches, the others from the transaction log.
    """  # noqa: D301  (click's mark for a block it must not wrap)
    from spark_jobs.books.history import history, unlisted_drains
    from spark_jobs.notices.failures import read_failures

    pipeline, lines = work.pipeline.name, history(*work, limit=limit, kinds=kinds)
    unlisted = unlisted_drains(*work)
    failures = read_failures(load_config().home, pipeline).last.values()
    failed = {failure.attempt: failure.message for failure in failures}
    whys = {line.entry.attempt: _why(line, failed) for line in lines}
    entries = [_to_json(line) | {"why": whys[line.entry.attempt]} for line in lines]
    report.add(pipeline=pipeline, table=work.pipeline.table, history=entries, unlisted_drains=unlisted)
    numbers = ("rows", "dead letters", "bytes", "files", "ms")
    report.table(
        ("when", "kind", "state", "ranges", *numbers, "snapshot", "actor", "reason"),
        [_row(line, whys[line.entry.attempt]) for line in lines],
        numbers=numbers,
    )
    if not lines:
        report.say("no batches yet")
    if unlisted:
        report.say(
            f"not listed: {count(unlisted, 'drain')} that the table's snapshots name. The log under `state:`"
            " was lost or replaced, or rows of sluice_batches were deleted. The table itself is not affected;"
            f" {mends.command('audit', pipeline)} verifies that."
        )


def _why(line: HistoryLine, failed: Mapping[str, str]) -> str:
    """Return why an attempt is unfinished, from the failure noted on this machine, if any."""
    from spark_jobs.books.history import State

    if line.state is not State.UNFINISHED:
        return ""
    return failed.get(line.entry.attempt, "it is running, or its process ended or runs on another machine")


def _to_json(line: HistoryLine) -> dict[str, Any]:
    entry = fields(line.entry)
    counts = fields(entry.pop("counts"))
    return {
        "state": line.state.value,
        "phase": line.phase,
        **entry,
        **counts,
        "ranges": [[r.partition, r.start, r.end] for r in line.entry.ranges],
        "balance": line.entry.counts.balance,
        "skipped": line.entry.skipped,
        "started_at": when(line.entry.started_at_us),
        "finished_at": when(line.entry.finished_at_us),
    }


def _row(line: HistoryLine, why: str) -> tuple[object, ...]:
    entry, counts, state = line.entry, line.entry.counts, line.state.value
    return (
        when(entry.started_at_us),
        entry.kind,
        state if line.phase is None or entry.is_landed else f"{state} ({line.phase})",
        _ranges(line),
        counts.balance.all_rows,
        counts.balance.dead_letters,
        counts.file_bytes,
        counts.data_files + counts.dead_letter_files,
        sum(entry.durations_ms.values()),
        str(entry.snapshot_id or "-"),
        entry.actor,
        entry.reason or why or "-",
    )


def _ranges(line: HistoryLine) -> str:
    ranges = [str(each) for each in line.entry.ranges]
    more = len(ranges) - MAX_RANGES_SHOWN
    shown = " ".join(ranges[:MAX_RANGES_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown or "-"
