"""``audit PIPELINE``: whether every drained record is in the table once, as it is in Kafka."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from cli import output
from cli.work import opened, verdict

if TYPE_CHECKING:
    from spark_jobs.audit.findings import MetadataAudit

NUMBERS = (
    *("records", "rows", "routed", "dead_letters", "tombstones", "filtered", "missing", "removed"),
    *("skipped", "duplicates", "differing", "outdated", "rounded", "snapshots", "lag"),
)


@click.command("audit")
@click.argument("pipeline")
@click.option("--metadata", is_flag=True, help="Audit files, log and commits instead; asks Kafka nothing.")
@click.option("--pages", is_flag=True, help="With --metadata: read all of each file, page by page.")
@output.json_option
def command(pipeline: str, metadata: bool, pages: bool, as_json: bool) -> int:
    """Compare PIPELINE's table with Kafka: missing, duplicated and differing records.

    Rows that another writer deleted are `removed`, not missing, as far as kept snapshots show it.
    Integers of which a column holds only the nearest double are `rounded`: the command that mends it is told.
    Rows that an earlier configuration made are `outdated`, not wrong: what applies today's is told.
    Where Kafka no longer holds a range it is judged by offsets and counts. Exit code 1 when anything is off.
    With --metadata: every file the metadata names is there, whole and as described; log and table agree;
    offsets are contiguous and balanced. Each finding names the command that mends it. Both only read.
    """
    if pages and not metadata:
        raise click.UsageError("--pages reads files; it goes with --metadata.")
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
        output.say(f"{result.pipeline}: {verdict(result)}")
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
