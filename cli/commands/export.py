"""``export PIPELINE --to TOPIC``: produce an archive's records to a topic."""

from __future__ import annotations

import click

from cli.output import Report, count, verbosely_reported
from cli.work import opened
from spark_jobs.config.file import load_config
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.replay.ranges import parse_range


@click.command("export")
@click.argument("pipeline")
@click.option(
    "--to", "target", required=True, metavar="TOPIC", help="Target topic. It is created if it does not exist."
)
@click.option(
    "--range",
    "ranges",
    multiple=True,
    metavar="P:START-END",
    help="Offsets of one partition, at most one range each. Default: all drained offsets.",
)
@click.option(
    "--offsets",
    type=click.Choice(["renumber", "keep"]),
    default="renumber",
    show_default=True,
    help="renumber assigns new offsets. keep keeps the original ones; aborted transactions fill the gaps.",
)
@click.option("--dry-run", is_flag=True, help="Read the topic and show what would be produced.")
@verbosely_reported
def command(
    report: Report, pipeline: str, *, target: str, ranges: tuple[str, ...], offsets: str, dry_run: bool
) -> None:
    """Produce the records of PIPELINE's archive to TOPIC with their keys, values, headers, times and order.

    After an interruption, run it again: it continues after the last record in the topic. The records in the
    topic are compared with the archive first. A topic with other records is refused.
    """
    selected = tuple(map(parse_range, ranges))
    with opened(pipeline, "export") as work:
        from spark_jobs.export.export import export

        def progress(done: int, whole: int) -> None:
            report.say(f"  produced {done:,} of {whole:,} records")

        exported = export(
            *work,
            target,
            selected,
            keep_offsets=offsets == "keep",
            drained_by=lambda topic: _drained_by(load_config(), topic),
            dry_run=dry_run,
            on_progress=progress,
        )
    there, produced = exported.there, exported.produced
    ids, numbers = ("partition", "from", "to"), ("in topic", "to produce" if dry_run else "produced")
    rows = [(r.partition, r.start, r.end, there[r.partition], produced[r.partition]) for r in exported.ranges]
    report.table((*ids, *numbers), rows, numbers=numbers, ids=ids)
    report.say(*exported.notes)
    before, added = sum(there.values()), sum(produced.values())
    done = f"{exported.target} has {count(before + added, 'record')} of the archive"
    report.say("nothing was produced" if dry_run else done)
    report.add(topic=exported.target, ranges=exported.ranges, there=before)
    report.add(produced=0 if dry_run else added, to_produce=added if dry_run else 0, notes=exported.notes)


def _drained_by(config: SluiceConfig, topic: str) -> str | None:
    """Return the pipeline that drains the topic, or would drain it if it existed."""
    from spark_jobs.expressions.regex import whole_matches

    named = (pipeline.name for pipeline in config.pipelines if pipeline.topic == topic)
    by_pattern = (each.name for each in config.templates if whole_matches(each.topics_regex, [topic]))
    return next(iter([*named, *by_pattern]), None)
