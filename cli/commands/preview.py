"""``preview PIPELINE``: the table that a topic would become, with the evidence for each column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli import output
from cli.commands.config_template import proposals
from cli.work import opened
from spark_jobs.protocol.batch import TERMS
from spark_jobs.protocol.errors import BadRecord
from spark_jobs.schema.evidence import FieldEvidence

if TYPE_CHECKING:
    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections
    from spark_jobs.preview.preview import Preview

DEFAULT_RECORDS = 5_000
EXAMPLES = 10
MOST_CHARACTERS = 240  # of a type
EXIT_UNREADABLE = BadRecord.exit_code


@click.command("preview")
@click.argument("pipeline")
@click.option(
    "--records", default=DEFAULT_RECORDS, show_default=True, help="Maximum number of records to read."
)
@click.option(
    "--schema",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    help="Rehearse the schema in this file with the newest records.",
)
@click.option(
    "--version",
    type=click.IntRange(min=1),
    help="Rehearse this version of the topic's subject in the registry.",
)
def command(pipeline: str, records: int, schema: str | None, version: int | None) -> int:
    """Read some records of PIPELINE and show the table that they would become. Writes nothing.

    Shows each column with the values seen, the partitioning, and which records would be dead letters and
    why. This is an estimate: the first batch derives the columns from all of its records. Exit code 65 if
    no record becomes a row, so that the first batch would be refused.

    A rehearsal shows the newest records as if written with another schema, for a producer's CI. Exit code
    65 if that makes dead letters, fails a quality gate or can hold none of them.
    """
    if schema and version:
        raise click.UsageError("give --schema or --version, not both")
    with opened(pipeline, "preview") as (chosen, connections):
        if schema or version:
            return _rehearse(chosen, connections, schema, version, records)
        from spark_jobs.preview.preview import preview

        seen = preview(chosen, connections, max_records=records)
    _print(seen, chosen)
    return EXIT_UNREADABLE if seen.is_unreadable else 0


def _rehearse(
    pipeline: PipelineConfig, connections: Connections, schema: str | None, version: int | None, records: int
) -> int:
    value = pipeline.value
    if not value.format.has_schema or (version and value.registry is None):
        lacking = "a registry" if value.format.has_schema else "values with a schema"
        raise click.UsageError(
            f"a rehearsal needs {lacking}: the values of {pipeline.name} are {value.format}"
        )
    from spark_jobs.preview.rehearsal import rehearse

    found = rehearse(pipeline, connections, file=schema, version=version, max_records=records)
    if not found.fits_none:
        _print(found.seen, pipeline)
    for why, count in found.left_out.items():
        output.say(f"{output.count(count, 'record')} left out, since the schema cannot hold them: {why}")
    for failed in found.failed_gates:
        output.say(f"a batch of these records would be held: {failed}")
    if pipeline.gates and pipeline.layout.keeps_newest:
        output.say("gates were not judged: those of a mirror judge rows after their changes")
    output.say(
        "the schema can hold none of the records"
        if found.fits_none
        else f"{output.count(len(found.dead_letters), 'record')} would become dead letters by this schema; "
        f"columns changed: {', '.join(found.seen.added) or 'none'}"
    )
    return 0 if found.is_safe else EXIT_UNREADABLE


def _print(seen: Preview, pipeline: PipelineConfig) -> None:
    state = "new" if seen.is_new else "exists"
    output.say(
        f"{seen.topic} -> {seen.table} ({state}): {output.count(seen.balance.offsets, 'record')} read, "
        f"{output.count(seen.balance.rows, 'row')}, {output.count(len(seen.dead_letters), 'dead letter')}, "
        f"{output.count(seen.balance.tombstones, 'tombstone')}{_others(seen)}{_filtered(seen)}; "
        "nothing was written"
    )
    if not seen.balance.offsets:
        output.say("the topic has no records to read yet" if seen.is_new else "no records wait")
        if not seen.is_new:
            output.say(f"for drained records: {pipeline.layout.compared(pipeline.name)}")
        return
    output.heading("Columns")
    _print_columns(seen)
    output.heading("Partitioning")
    for use in seen.partitioning:
        values = "" if use.values is None else f": {output.count(use.values, 'value')} in these records"
        output.say(f"  {use.term}{values}")
    if not seen.partitioning:
        output.say("  none")
    for number, (reasons, lines) in enumerate(proposals(seen.found)):
        first = "Settings to consider before the first batch"
        output.heading("Or instead" if number else first)
        for sentence in reasons:
            output.say(f"  {sentence}")
        for line in lines:
            output.say(f"    {line}")
    if seen.dead_letters:
        output.heading("Dead letters")
        _print_dead_letters(seen)


def _others(seen: Preview) -> str:
    """Return the counts of records that leave no row in a mirror, as text."""
    others = {name: n for name, n in seen.balance.items() if name not in {*TERMS, "filtered", "routed"}}
    return "".join(f", {number:,} {name.replace('_', ' ')}" for name, number in others.items() if number)


def _filtered(seen: Preview) -> str:
    reasons = ", ".join(f"{number:,} {reason}" for reason, number in seen.filtered_reasons.items())
    filtered = f", {seen.balance.get('filtered', 0):,} filtered ({reasons})" if reasons else ""
    routed = ", ".join(f"{number:,} {table}" for table, number in seen.routed_tables.items())
    return filtered + (f", {seen.balance['routed']:,} routed ({routed})" if routed else "")


def _print_columns(seen: Preview) -> None:
    from spark_jobs.schema.column_source import ignored_notes
    from spark_jobs.schema.iceberg_types import iceberg_type, type_text

    added = {name.split(".")[0] for name in seen.added}
    unseen = "from the schema" if seen.evidence.records and not seen.evidence.fields else "not seen"
    rows = []
    for column in seen.columns:
        evidence = seen.evidence.fields.get(column.name)
        kinds, example = _describe(evidence) if evidence else (unseen, "")
        if column.name in seen.sources:
            kinds, example = seen.sources[column.name], seen.made.get(column.name, "")
        note = "new" if column.name in added else ""
        kind = type_text(iceberg_type(column.type))
        kind = kind if len(kind) <= MOST_CHARACTERS else f"{kind[:MOST_CHARACTERS]}…"
        rows.append((column.name, kind, note, kinds, example))
    output.table(("column", "type", "", "seen", "first (partition:offset)"), rows)
    without = [name for name in seen.evidence.fields if name not in {c.name for c in seen.columns}]
    if without:
        output.say(
            "no column (only nulls or empty, integers above 64 bits, a name clash, or too many columns): "
            f"{', '.join(without[:EXAMPLES])}{', ...' if len(without) > EXAMPLES else ''}"
        )
    output.say(*ignored_notes(seen.ignored, seen.layout.unread), *seen.notes)


def _describe(evidence: FieldEvidence) -> tuple[str, str]:
    sightings = sorted(evidence.kinds.items(), key=lambda item: -item[1].count)
    kinds = ", ".join(f"{kind} {sighting.count:,}" for kind, sighting in sightings)
    first = sightings[0][1]
    return kinds, f"{first.example} ({first.partition}:{first.offset})"


def _print_dead_letters(seen: Preview) -> None:
    output.table(
        ("partition", "offset", "field", "why"),
        [(d.partition, d.offset, d.field, d.error) for d in seen.dead_letters[:EXAMPLES]],
        ids=("partition", "offset"),
    )
    if len(seen.dead_letters) > EXAMPLES:
        output.say(f"and {len(seen.dead_letters) - EXAMPLES:,} more")
