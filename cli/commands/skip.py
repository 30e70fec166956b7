"""``skip PIPELINE P:START-END``: pass over offsets that cannot be drained, and record it."""

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
        raise click.UsageError("give one range per partition") from error


_RANGE = Read("range", _range, "not P:START-END, like 0:17-18 (END is not skipped)")


@pipeline_command("skip")
@click.argument(
    "ranges", nargs=-1, required=True, type=_RANGE, callback=_one_a_partition, metavar="P:START-END..."
)
@reason_option("Reason, shown by `history` and `audit`.")
def command(report: Report, work: Work, ranges: OffsetRanges, reason: str) -> None:
    """Pass over offsets of PIPELINE that cannot be drained. END is exclusive.

    Use it for a record that crashes its task, or for offsets that Kafka has lost. START must be the next
    offset of partition P, so repeating the command changes nothing. The audit counts these offsets as
    skipped, not as missing. A replay of the range adds the records that Kafka still holds.
    """
    from spark_jobs.acts.act import skip

    committed = skip(*work, ranges, reason=reason)
    name, now = work.pipeline.name, committed.progress.next_offsets
    report.add(pipeline=name, skipped=list(ranges), snapshot=committed.snapshot_id, next_offsets=now)
    report.say(f"{name}: skipped {ranges} ({count(ranges.records, 'offset')}): {reason}")
