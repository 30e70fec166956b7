"""``skip PIPELINE P:START-END``: goes past offsets that cannot be drained, and says so for ever."""

from __future__ import annotations

import click

from cli import output
from cli.work import Read, opened
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges


def _range(text: str) -> OffsetRange:
    partition, _, offsets = text.partition(":")
    start, _, end = offsets.partition("-")
    return OffsetRange(int(partition), int(start), int(end))


_RANGE = Read("range", _range, "not P:START-END, like 0:17-18 (END is not skipped)")


@click.command("skip")
@click.argument("pipeline")
@click.argument("ranges", nargs=-1, required=True, type=_RANGE, metavar="P:START-END...")
@click.option("--reason", required=True, help="Why, for the history and the audit.")
@output.json_option
def command(pipeline: str, ranges: tuple[OffsetRange, ...], reason: str, as_json: bool) -> None:
    """Leave offsets of PIPELINE out: END is the first one that is drained again.

    For a record that kills its task, or offsets that Kafka has lost. START is the next offset of partition P,
    so a command typed twice changes nothing the second time. The audit counts what was left out as skipped,
    never as missing; a replay of the range brings in what Kafka still has of it.
    """
    try:
        wanted = OffsetRanges.of(ranges)
    except ValueError as error:
        raise click.UsageError("one range a partition") from error
    with opened(pipeline, "skip") as (chosen, connections):
        from spark_jobs.acts.act import skip

        committed = skip(chosen, connections, wanted, reason=reason)
    if as_json:
        output.json_line(
            {
                "pipeline": chosen.name,
                "skipped": [str(r) for r in wanted],
                "snapshot": committed.snapshot_id,
                "next_offsets": committed.progress.next_offsets,
            }
        )
    else:
        output.say(f"{chosen.name}: skipped {wanted} ({output.count(wanted.records, 'offset')}): {reason}")
