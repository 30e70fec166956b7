"""``trace PIPELINE PARTITION:OFFSET | --key K``: where a record is and why."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

import click

from cli import output
from cli.work import opened

if TYPE_CHECKING:
    from spark_jobs.audit.trace import Trace

_COORDINATES = re.compile(r"(\d+):(\d+)")
DEFAULT_LIMIT = 20


@click.command("trace")
@click.argument("pipeline")
@click.argument("record", metavar="[PARTITION:OFFSET]", required=False)
@click.option("--key", help="Every row and dead letter with this key instead.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=DEFAULT_LIMIT,
    show_default=True,
    help="With --key: how many at most, the newest offsets first.",
)
@output.json_option
def command(pipeline: str, record: str | None, key: str | None, limit: int, *, as_json: bool) -> None:
    """Tell where the record at PARTITION:OFFSET of PIPELINE's topic is, and why.

    A row with file, position, batch and who committed it; a dead letter with its error; a tombstone, a gap, a
    skipped or held record; one that is not drained yet, was removed by another writer, or that Kafka deleted
    before it was drained. Each generation of the topic that had such an offset is told. Reads only.
    """
    if (record is None) == (key is None):
        raise click.UsageError("give either PARTITION:OFFSET, for example 0:1200, or --key")
    spot = None if record is None else _coordinates(record)
    with opened(pipeline, "trace") as (chosen, connections):
        from spark_jobs.audit.trace import trace, trace_key

        if spot is not None:
            traces = trace(chosen, connections, *spot)
        else:
            traces = trace_key(chosen, connections, key or "", limit=limit)
    if as_json:
        output.json_line({"pipeline": chosen.name, "traces": list(map(_to_json, traces))})
        return
    for each in traces:
        _print(each)
    if key is not None:
        output.say(
            f"{output.count(len(traces), 'record')} with the key in the tables; tombstones and records not"
            " drained yet are found by PARTITION:OFFSET only"
        )


def _coordinates(text: str) -> tuple[int, int]:
    found = _COORDINATES.fullmatch(text)
    if found is None:
        raise click.UsageError(f"{text!r} is not PARTITION:OFFSET, for example 0:1200")
    return int(found[1]), int(found[2])


def _print(trace: Trace) -> None:
    spot = trace.spot
    output.heading(
        f"{trace.topic} {spot.partition}:{spot.offset}, generation {spot.generation}: {trace.where}"
    )
    facts = {name: value for name, value in _facts(trace).items() if value not in {None, ""}}
    width = max(map(len, facts), default=0)
    for name, value in facts.items():  # no table: it would break a file's path in the middle
        output.say(f"{name.ljust(width)}  {value}")


def _facts(trace: Trace) -> dict[str, Any]:
    """Return what is known, in the order in which it is told."""
    entry, place, by = trace.entry, trace.place, trace.removed_by
    facts: dict[str, Any] = {"why": trace.why}
    if place is not None:
        facts |= {"file": place.file, "row": None if place.position is None else str(place.position)}
    if trace.snapshot_id is not None:
        facts["seen in snapshot"] = str(trace.snapshot_id)
    if by is not None:
        at = output.when(by.committed_at_ms * 1000)
        facts["removed by"] = f"snapshot {by.snapshot_id} ({by.operation}) of another writer at {at}"
    if entry is not None:
        facts |= {
            "batch": entry.batch_id,
            "attempt": entry.attempt,
            "range": str(entry.ranges),
            "landed": output.when(entry.finished_at_us),
            "its snapshot": str(entry.snapshot_id or ""),
            "actor": entry.actor,
            "reason": entry.reason,
        }
    return facts


def _to_json(trace: Trace) -> dict[str, Any]:
    entry, place, by = trace.entry, trace.place, trace.removed_by
    return {
        "topic": trace.topic,
        **dataclasses.asdict(trace.spot),
        "where": trace.where.value,
        "why": trace.why,
        "file": place.file if place else None,
        "row": place.position if place else None,
        "snapshot_id": trace.snapshot_id,
        "removed_by": dataclasses.asdict(by) if by else None,
        "batch_id": entry.batch_id if entry else None,
        "attempt": entry.attempt if entry else None,
        "kind": entry.kind if entry else None,
        "landed_snapshot_id": entry.snapshot_id if entry else None,
        "finished_at": output.when(entry.finished_at_us) if entry else None,
        "actor": entry.actor if entry else None,
        "reason": entry.reason if entry else None,
    }
