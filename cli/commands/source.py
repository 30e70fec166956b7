"""``source PIPELINE``: compare a topic with the one that filled its table, or accept another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from cli.output import Report, count, fields, reported
from cli.work import Read, opened
from spark_jobs.config.quantities import Start, parse_start
from spark_jobs.protocol import mends

if TYPE_CHECKING:
    from spark_jobs.acts.accept_source import Restart, SourceComparison
    from spark_jobs.config.settings import PipelineConfig

_OFFSETS = re.compile("[0-9:, ]+")


def _start(text: str) -> Start:
    """Parse a value of the setting ``start``, with offsets in one word."""
    if _OFFSETS.fullmatch(text):
        return parse_start(dict(pair.split(":") for pair in text.replace(" ", "").split(",")))
    return parse_start(text)


_START = Read("start", _start, "not earliest, latest, a time or offsets like 0:100,1:250")


@click.command("source")
@click.argument("pipeline")
@click.option("--accept", is_flag=True, help="Continue from today's topic, in one commit.")
@click.option("--reason", default="", help="Reason, shown by `history`. Required with --accept.")
@click.option(
    "--start",
    type=_START,
    default="earliest",
    metavar="WHERE",
    help="Where a different topic is read from: earliest, latest, a time, or P:OFFSET,... .",
)
@reported
def command(report: Report, pipeline: str, accept: bool, reason: str, start: Start) -> None:
    """Compare PIPELINE's topic with the one that filled its table, by ids and each partition's last rows.

    With --accept the table continues from today's topic. If that has the same records at the same offsets
    (a mirrored topic, a migrated broker), the table continues at its offsets. Offsets after the last row
    (skipped, filtered, dead letters) cannot be compared; the command that reads them again is printed.
    Any other topic, or one that lost its newest records, becomes the next generation of the source: existing
    rows stay, and the column _kafka_generation distinguishes new ones.

    Complete batches of the old source are committed first. A held batch must be published or discarded
    before. Nothing happens if the source has not changed.

    For a mirror, the command also finds where its database was reset within the same topic
    (source-restarted). With --accept, positions are compared from there on, and the check `exact` fails until
    a rebuild.
    """
    if accept and not reason:
        raise click.UsageError("--accept requires --reason")
    with opened(pipeline, "source") as work:
        from spark_jobs.acts.accept_source import accept_restart, accept_source, compare_source, find_restart
        from spark_jobs.acts.act import settle

        if accept:
            settle(*work, then="accept")
        seen = compare_source(*work)
        restart = None if seen.has_changed else find_restart(*work)
        accepted = None
        if accept and seen.has_changed:
            accepted = accept_source(*work, seen, start=start, reason=reason)
        elif accept and restart is not None:
            accepted = accept_restart(*work, restart, reason=reason)
    _tell(report, pipeline, seen, restart)
    report.add(restarted=restart and restart.firsts, generation=accepted and accepted.progress.generation)
    if accepted is not None and seen.has_changed:
        how, progress = "continues in" if seen.continues else "starts", accepted.progress
        report.say(f"{pipeline}: {how} generation {progress.generation} at {progress.next_offsets}")
        report.say(*_unread(work.pipeline, seen))
    elif accepted is not None:
        report.say(f"{pipeline}: positions restart; {mends.act('rebuild', pipeline)} makes the mirror exact")


def _tell(report: Report, name: str, seen: SourceComparison, restart: Restart | None) -> None:
    was, now = seen.progress, seen.source
    extents = (f"{p}: {now.low[p]} to {end}" for p, end in sorted(now.end.items()))
    report.table(
        ("", "the table's source", "today's topic"),
        [
            ("cluster id", was.cluster_id, now.cluster_id),
            ("topic id", was.topic_id, now.topic_id),
            ("generation", was.generation, None),
            ("offsets", was.next_offsets, ", ".join(extents)),
        ],
    )
    report.say(f"{name}: {seen.same} of the table's last {count(seen.compared, 'row')} match the topic")
    for objection in seen.objections:
        report.say(f"  {objection}")
    report.say(f"{name}: {_verdict(seen, restart)}")
    report.add(pipeline=name, changed=seen.has_changed)
    report.add(seen, "continues", "compared", "same", "objections", "cut", "unshown")
    ids = ("cluster_id", "topic_id")
    report.add(table=fields(was, *ids), topic=fields(now, *ids))


def _unread(pipeline: PipelineConfig, seen: SourceComparison) -> Iterator[str]:
    """Yield the offsets that only a command reads: without rows they cannot be compared."""
    if seen.continues and seen.unshown:
        ranges = " ".join(map(str, seen.unshown))
        yield f"{pipeline.name}: {ranges} has no rows to compare: its current records are not read"
        yield f"  {pipeline.layout.read_again(pipeline.name, ranges)} reads them"


def _verdict(seen: SourceComparison, restart: Restart | None) -> str:
    if restart is not None:
        return f"the source was reset at {restart.firsts}: --accept compares its positions from there on"
    if not seen.has_changed:
        return "the source has not changed"
    if seen.continues:
        return "the same records at the same offsets: --accept continues at the table's offsets"
    if seen.cut:
        return "the topic lost its newest records: --accept starts the table's next generation with it"
    return "a different topic: --accept starts the table's next generation with it"
