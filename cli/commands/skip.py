"""``skip PIPELINE P:START-END``: goes past offsets that cannot be drained, and says so for ever."""

from __future__ import annotations

import click

from cli.output import Report, count
from cli.work import Read, Work, pipeline_command, reason_option
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges


def _range(text: str) -> OffsetRange:
    partition, _, offsets = text.partition(":")
    start, _, end = offsets.partition("-")
    return OffsetRange(int(partition), int(start), int(end))


def _one_a_partition(_: click.Context, __: click.Parameter, ranges: tuple[OffsetRange, ...]) -> OffsetRanges:
    try:
        return OffsetRanges.of(ranges)
    except ValueError as error:
        raise click.UsageError("one range a partition") from error


_RANGE = Read("range", _range, "not P:START-END, like 0:17-18 (END is not skipped)")


@pipeline_command("skip")
@click.argument(
    "ranges", nargs=-1, required=True, type=_RANGE, callback=_one_a_partition, metavar="P:START-END..."
)
@reason_option("Why, for the history and the audit.")
def command(report: Report, work: Work, ranges: OffsetRanges, reason: str) -> None:
    """Leave offsets of PIPELINE out: END is the first one that is drained again.

    For a record that kills its task, or offsets that Kafka has lost. START is the next offset of partition P,
    so a command typed twice changes nothing the second time. The audit counts what was left out as skipped,
    never as missing; a replay of the range brings in what Kafka still has of it.
    """
    from spark_jobs.acts.act import skip

    committed = skip(*work, ranges, reason=reason)
    name, now = work.pipeline.name, committed.progress.next_offsets
    report.add(pipeline=name, skipped=list(ranges), snapshot=committed.snapshot_id, next_offsets=now)
    report.say(f"{name}: skipped {ranges} ({count(ranges.records, 'offset')}): {reason}")
