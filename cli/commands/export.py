"""``export PIPELINE --to TOPIC``: an archive's records back into a topic, as they came."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli import output
from cli.work import opened
from spark_jobs.config.file import load_config
from spark_jobs.replay.ranges import parse_range

if TYPE_CHECKING:
    from spark_jobs.config.settings import SluiceConfig
    from spark_jobs.export.export import Exported


@click.command("export")
@click.argument("pipeline")
@click.option("--to", "target", required=True, metavar="TOPIC", help="Made if it is not there.")
@click.option(
    "--range",
    "ranges",
    multiple=True,
    metavar="P:START-END",
    help="Offsets of a partition, one range each; all that was drained without it.",
)
@click.option(
    "--offsets",
    type=click.Choice(["renumber", "keep"]),
    default="renumber",
    show_default=True,
    help="Count records anew, or give each the offset that it had: aborted transactions fill the gaps.",
)
@click.option("--dry-run", is_flag=True, help="Look at the topic and say what would be produced.")
@output.json_option
def command(
    pipeline: str, *, target: str, ranges: tuple[str, ...], offsets: str, dry_run: bool, as_json: bool
) -> None:
    """Produce the records of PIPELINE's archive to TOPIC as they came: keys, values, headers, times, order.

    Killed and run again it goes on behind the last record that arrived; what the topic holds is first
    compared with the archive, and a topic with other records is refused.
    """
    wanted = tuple(map(parse_range, ranges))
    with opened(pipeline, "export") as (chosen, connections):
        from spark_jobs.export.export import export

        def progress(done: int, whole: int) -> None:
            output.say(f"  produced {done:,} of {whole:,} records")

        exported = export(
            chosen,
            connections,
            target,
            wanted,
            keep_offsets=offsets == "keep",
            drained_by=lambda topic: _drained_by(load_config(), topic),
            dry_run=dry_run,
            on_progress=progress,
        )
    _print(exported, is_dry=dry_run)
    if as_json:
        output.json_line(
            {
                "topic": exported.target,
                "ranges": [str(each) for each in exported.ranges],
                "there": sum(exported.there.values()),
                "produced": 0 if dry_run else sum(exported.produced.values()),
                "to_produce": sum(exported.produced.values()) if dry_run else 0,
                "notes": list(exported.notes),
            }
        )


def _print(exported: Exported, *, is_dry: bool) -> None:
    brought = "to produce" if is_dry else "produced"
    ids, numbers = ("partition", "from", "to"), ("there", brought)
    output.table(
        (*ids, *numbers),
        [
            (r.partition, r.start, r.end, exported.there[r.partition], exported.produced[r.partition])
            for r in exported.ranges
        ],
        numbers=numbers,
        ids=ids,
    )
    for note in exported.notes:
        output.say(note)
    whole = sum((*exported.there.values(), *exported.produced.values()))
    if is_dry:
        output.say("nothing was produced")
    else:
        output.say(f"{exported.target} has {output.count(whole, 'record')} of the archive")


def _drained_by(config: SluiceConfig, topic: str) -> str | None:
    """Return the pipeline that drains the topic, or would once it is there."""
    from spark_jobs.expressions.regex import whole_matches

    named = (pipeline.name for pipeline in config.pipelines if pipeline.topic == topic)
    by_pattern = (each.name for each in config.templates if whole_matches(each.topics_regex, [topic]))
    return next(iter([*named, *by_pattern]), None)
