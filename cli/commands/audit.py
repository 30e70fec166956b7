"""``audit PIPELINE``: whether every drained record is in the table once, as it is in Kafka."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING

import click

from cli import output
from cli.work import opened, verdict
from spark_jobs.config.file import load_config

if TYPE_CHECKING:
    from spark_jobs.audit.findings import MetadataAudit

NUMBERS = (
    *("records", "rows", "routed", "dead_letters", "tombstones", "filtered", "folded", "missing"),
    *("removed", "skipped", "duplicates", "differing", "outdated", "rounded", "foreign", "snapshots", "lag"),
)


@click.command("audit")
@click.argument("pipeline")
@click.option("--metadata", is_flag=True, help="Audit files, log and commits instead; asks Kafka nothing.")
@click.option("--pages", is_flag=True, help="With --metadata: read all of each file, page by page.")
@click.option("--source", is_flag=True, help="Compare a mirror with the database that it is of.")
@click.option(
    "--wait",
    "patience_seconds",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="With --source: look again for so many seconds at what differs, as it may be on its way.",
)
@output.json_option
def command(
    pipeline: str, *, metadata: bool, pages: bool, source: bool, patience_seconds: float, as_json: bool
) -> int:
    """Compare PIPELINE's table with Kafka: missing, duplicated and differing records.

    Rows that another writer deleted are `removed`, not missing, as far as kept snapshots show it.
    Integers of which a column holds only the nearest double are `rounded`: the command that mends it is told.
    Rows that an earlier configuration made are `outdated`, not wrong: what applies today's is told.
    Where Kafka no longer holds a range it is judged by offsets and counts; of a mirror only keys are compared
    whose last change Kafka still holds. Exit code 1 when anything is off.
    With --metadata: every file the metadata names is there, whole and as described; log and table agree;
    offsets are contiguous and balanced. Each finding names the command that mends it.
    With --source: the rows of a mirror are those that its database has, by counts and hashes first. All only
    read.
    """
    if pages and not metadata:
        raise click.UsageError("--pages reads files; it goes with --metadata.")
    if source:
        return _audit_source(pipeline, patience_seconds, as_json=as_json)
    if metadata:
        return _audit_metadata(pipeline, pages=pages, as_json=as_json)
    with opened(pipeline, "audit") as (chosen, connections):
        from spark_jobs.audit.audit import audit

        result = audit(chosen, connections)
    if as_json:
        ranges = [*map(str, result.outdated_ranges)]
        output.json_line({**dataclasses.asdict(result), "outdated_ranges": ranges, "records": result.records})
    else:
        numbers = [name.replace("_", " ") for name in NUMBERS]
        row = (result.pipeline, *(getattr(result, name) for name in NUMBERS))
        output.table(("pipeline", *numbers), [row], numbers=numbers)
        for kind, records in result.passed.items():
            output.say(f"{records:,} {kind.replace('_', ' ')} passed over: no changes of a row")
        output.say(f"{result.pipeline}: {verdict(result)}")
        if result.foreign:
            output.say(
                f"{output.count(result.foreign, 'change')} of another source or table than the mirror's:"
                " `layout: changes` keeps every event of all; else have each told into a topic of its own"
                f"\n  mend:  {result.outdated_mend(result.pipeline)}"
            )
        for each in result.rounded_columns:
            output.say(
                f"{each.column}: {output.count(each.rows, 'row')} with integers that were rounded"
                f"\n  mend:  {each.mend(result.pipeline)}"
            )
        if result.outdated:
            output.say(
                f"{output.count(result.outdated, 'record')} as an earlier configuration made them of"
                f" {' '.join(map(str, result.outdated_ranges))}"
                f"\n  mend:  {result.outdated_mend(result.pipeline)}"
            )
    return 0 if result.is_clean else 1


def _audit_source(pipeline: str, patience_seconds: float, *, as_json: bool) -> int:
    with opened(pipeline, "audit") as (chosen, connections):
        from spark_jobs.audit.source_audit import audit_source

        config = load_config()
        tell = partial(click.echo, err=True)
        waits = {"patience_seconds": patience_seconds}
        result = audit_source(config, chosen, connections, **waits, on_progress=tell)
    if as_json:
        output.json_line(dataclasses.asdict(result))
        return 0 if result.is_clean else 1
    unlike = f"; not compared: {', '.join(result.left_out)}" if result.left_out else ""
    output.say(
        f"{result.pipeline}: {output.count(result.rows, 'row')} in the database, {result.mirror_rows:,} in"
        f" the mirror, compared by {', '.join(result.compared)}{unlike}"
    )
    if result.is_clean:
        output.say("both have the same rows")
        return 0
    proof = "" if result.is_proven else ", or changes are on their way: look with a longer --wait"
    output.say(f"NOT the same: {output.count(result.differing, 'key')}{proof}")
    for example in result.examples:
        output.say(f"  {example}")
    return 1


def _audit_metadata(pipeline: str, *, pages: bool, as_json: bool) -> int:
    with opened(pipeline, "audit") as (chosen, connections):
        from spark_jobs.audit.metadata import audit_metadata

        result = audit_metadata(chosen, connections, pages=pages, on_progress=_tell_files)
    if as_json:
        output.json_line(dataclasses.asdict(result))
        return 0 if result.is_clean else 1
    for finding in result.findings:
        output.say(f"{finding.what}\n  where: {finding.where}\n  mend:  {finding.mend}")
    seen = (
        f"{output.count(result.data_files, 'data file')} ({result.data_bytes:,} bytes), "
        f"{output.count(result.metadata_files, 'metadata file')}, "
        f"{output.count(result.snapshots, 'snapshot')}, {output.count(result.attempts, 'attempt')} in the log"
    )
    judged = "all is there and agrees" if result.is_clean else output.count(len(result.findings), "finding")
    output.say(f"{result.pipeline}: {judged}; {seen}")
    return 0 if result.is_clean else 1


def _tell_files(counts: MetadataAudit) -> None:
    click.echo(f"{counts.data_files:,} data files looked at", err=True)
