"""``trace PIPELINE PARTITION:OFFSET | --key K``: find where a record is and why."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from cli.output import Report, count, fields, reported, when, when_ms
from cli.work import limit_option, opened

if TYPE_CHECKING:
    from spark_jobs.audit.trace import Trace

_COORDINATES = re.compile(r"(\d+):(\d+)")


@click.command("trace")
@click.argument("pipeline")
@click.argument("record", metavar="[PARTITION:OFFSET]", required=False)
@click.option("--key", help="Find every row and dead letter with this key instead.")
@limit_option("With --key: maximum number of records, newest offsets first.")
@reported
def command(report: Report, pipeline: str, record: str | None, key: str | None, limit: int) -> None:
    """Show where the record at PARTITION:OFFSET of PIPELINE's topic is, and why. Reads only.

    The result is one of: a row (with file, position, batch and actor), a dead letter (with its error), a
    tombstone, a gap, a skipped or held record, not drained yet, removed by another writer, or deleted by
    Kafka before it was drained. Each generation of the topic with this offset is shown.
    """
    if (record is None) == (key is None):
        raise click.UsageError("give either PARTITION:OFFSET, for example 0:1200, or --key")
    spot = None if record is None else _coordinates(record)
    with opened(pipeline, "trace") as work:
        from spark_jobs.audit.trace import trace, trace_key

        traces = trace(*work, *spot) if spot else trace_key(*work, key or "", limit=limit)
    report.add(pipeline=pipeline, traces=list(map(_to_json, traces)))
    for each in traces:
        _tell(report, each)
    if key is not None:
        report.say(
            f"{count(len(traces), 'record')} with the key in the tables; for tombstones and records"
            " that are not drained yet, give PARTITION:OFFSET"
        )


def _coordinates(text: str) -> tuple[int, int]:
    found = _COORDINATES.fullmatch(text)
    if found is None:
        raise click.UsageError(f"{text!r} is not PARTITION:OFFSET, for example 0:1200")
    return int(found[1]), int(found[2])


def _tell(report: Report, trace: Trace) -> None:
    spot = trace.spot
    report.heading(
        f"{trace.topic} {spot.partition}:{spot.offset}, generation {spot.generation}: {trace.where}"
    )
    facts = {name: value for name, value in _facts(trace).items() if value not in {None, ""}}
    width = max(map(len, facts), default=0)
    for name, value in facts.items():  # no table: it would break a file's path in the middle
        report.say(f"{name.ljust(width)}  {value}")


def _facts(trace: Trace) -> dict[str, Any]:
    """Return the known facts in the order in which they are printed."""
    entry, place, by = trace.entry, trace.place, trace.removed_by
    facts: dict[str, Any] = {"why": trace.why}
    if place is not None:
        facts |= {"file": place.file, "row": None if place.position is None else str(place.position)}
    if trace.snapshot_id is not None:
        facts["seen in snapshot"] = str(trace.snapshot_id)
    if by is not None:
        at = when_ms(by.committed_at_ms)
        facts["removed by"] = f"snapshot {by.snapshot_id} ({by.operation}) of another writer at {at}"
    if entry is not None:
        facts |= {
            "batch": entry.batch_id,
            "attempt": entry.attempt,
            "range": str(entry.ranges),
            "landed": when(entry.finished_at_us),
            "its snapshot": str(entry.snapshot_id or ""),
            "actor": entry.actor,
            "reason": entry.reason,
        }
    return facts


def _to_json(trace: Trace) -> dict[str, Any]:
    entry, place = trace.entry, trace.place
    return {
        **fields(trace, "topic"),
        **fields(trace.spot),
        **fields(trace, "where", "why"),
        **fields(place, "file"),
        "row": place.position if place else None,
        **fields(trace, "snapshot_id", "removed_by"),
        **fields(entry, "batch_id", "attempt", "kind"),
        "landed_snapshot_id": entry.snapshot_id if entry else None,
        "finished_at": when(entry.finished_at_us) if entry else None,
        **fields(entry, "actor", "reason"),
    }
