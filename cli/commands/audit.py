"""``audit PIPELINE``: compare a table with Kafka, its metadata or its source database."""

from __future__ import annotations

from dataclasses import fields
from functools import partial

import click

from cli.output import Report, count, reported
from cli.work import Work, opened, verdict
from spark_jobs.audit.findings import MetadataAudit
from spark_jobs.config.file import load_config

NUMBERS = (
    *("records", "rows", "routed", "dead_letters", "tombstones", "filtered", "folded", "missing"),
    *("removed", "skipped", "duplicates", "differing", "outdated", "rounded", "foreign", "snapshots", "lag"),
)


@click.command("audit")
@click.argument("pipeline")
@click.option("--metadata", is_flag=True, help="Audit files, log and commits instead, without Kafka.")
@click.option("--pages", is_flag=True, help="With --metadata: read every page of every file.")
@click.option("--source", is_flag=True, help="Compare a mirror with its source database.")
@click.option(
    "--wait",
    "patience_seconds",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="With --source: seconds to wait for differing rows to arrive before they count as different.",
)
@reported
def command(
    report: Report, pipeline: str, *, metadata: bool, pages: bool, source: bool, patience_seconds: float
) -> int:
    """Compare PIPELINE's table with Kafka: missing, duplicated and differing records. Reads only.

    Exit code 1 if the audit finds a problem. Each problem is printed with the command that fixes it.

    \b
    removed   rows that another writer deleted, as far as the kept snapshots show it; not counted as missing
    rounded   integers stored as the nearest double
    outdated  rows written with an earlier configuration; not counted as wrong

    Ranges that Kafka no longer holds are checked by offsets and counts. In a mirror, a key is compared only
    if Kafka still holds its last change.

    With --metadata: checks that every file of the table's metadata exists and is intact, that log and table
    agree, and that offsets are contiguous and balanced. With --source: compares the rows of a mirror with
    its database, first by counts and hashes.
    """  # noqa: D301  (click's mark for a block it must not wrap)
    if pages and not metadata:
        raise click.UsageError("--pages requires --metadata.")
    with opened(pipeline, "audit") as work:
        if source:
            is_clean = _audit_source(report, work, patience_seconds)
        elif metadata:
            is_clean = _audit_metadata(report, work, pages=pages)
        else:
            is_clean = _audit(report, work)
    return 0 if is_clean else 1


def _audit(report: Report, work: Work) -> bool:
    from spark_jobs.audit.audit import audit

    pipeline, result = work.pipeline.name, audit(*work)
    names = (each.name for each in fields(result) if each.name != "layout")
    report.add(result, *names, records=result.records)
    numbers = [name.replace("_", " ") for name in NUMBERS]
    row = (pipeline, *(getattr(result, name) for name in NUMBERS))
    report.table(("pipeline", *numbers), [row], numbers=numbers)
    for kind, records in result.passed.items():
        report.say(f"{records:,} {kind.replace('_', ' ')} skipped: they change no row")
    report.say(f"{pipeline}: {verdict(result)}")
    if result.foreign:
        report.say(
            f"{count(result.foreign, 'change')} of another source or table than the mirror's. Give each"
            " source table a topic of its own, or keep all events with `layout: changes`."
            f"\n  fix:   {result.outdated_mend(pipeline)}"
        )
    for each in result.rounded_columns:
        report.say(
            f"{each.column}: {count(each.rows, 'row')} with rounded integers"
            f"\n  fix:   {each.mend(pipeline, result.layout)}"
        )
    if result.outdated:
        report.say(
            f"{count(result.outdated, 'record')} written with an earlier configuration:"
            f" {' '.join(map(str, result.outdated_ranges))}"
            f"\n  fix:   {result.outdated_mend(pipeline)}"
        )
    return result.is_clean


def _audit_source(report: Report, work: Work, patience_seconds: float) -> bool:
    from spark_jobs.audit.source_audit import audit_source

    show = partial(click.echo, err=True)
    result = audit_source(load_config(), *work, patience_seconds=patience_seconds, on_progress=show)
    report.add(result)
    unlike = f"; not compared: {', '.join(result.left_out)}" if result.left_out else ""
    report.say(
        f"{work.pipeline.name}: {count(result.rows, 'row')} in the database, {result.mirror_rows:,} in"
        f" the mirror, compared by {', '.join(result.compared)}{unlike}"
    )
    if result.is_clean:
        report.say("both have the same rows")
    else:
        proof = "" if result.is_proven else ". If changes are still on their way, use a longer --wait."
        report.say(f"NOT the same: {count(result.differing, 'key')}{proof}")
        for example in result.examples:
            report.say(f"  {example}")
    return result.is_clean


def _audit_metadata(report: Report, work: Work, *, pages: bool) -> bool:
    from spark_jobs.audit.metadata import audit_metadata

    result = audit_metadata(*work, pages=pages, on_progress=_show_files)
    report.add(result)
    for finding in result.findings:
        report.say(f"{finding.what}\n  where: {finding.where}\n  fix:   {finding.mend}")
    checked = (
        f"{count(result.data_files, 'data file')} ({result.data_bytes:,} bytes), "
        f"{count(result.metadata_files, 'metadata file')}, "
        f"{count(result.snapshots, 'snapshot')}, {count(result.attempts, 'attempt')} in the log"
    )
    verdict_text = "no problems" if result.is_clean else count(len(result.findings), "problem")
    report.say(f"{work.pipeline.name}: {verdict_text}; {checked}")
    return result.is_clean


def _show_files(counts: MetadataAudit) -> None:
    click.echo(f"{counts.data_files:,} data files checked", err=True)
