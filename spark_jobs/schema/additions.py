"""The columns a table is to get: those that were declared since it was made, and those for new fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.value_format import Layout
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.kept_columns import unfinished
from spark_jobs.protocol.progress import progress_from_properties
from spark_jobs.protocol.words import count
from spark_jobs.schema.evolution import Evolution, Path
from spark_jobs.schema.iceberg_types import (
    check_columns,
    declared_fields,
    declared_type,
    iceberg_type,
    known_fields,
    type_text,
    widenings_to,
)
from spark_jobs.schema.inference import by_lower_case, name_clash
from spark_jobs.schema.partitioning import partition_spec, partition_terms
from spark_jobs.schema.required_columns import check_own
from spark_jobs.schema.sort_order import columns_to_come, sort_order

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType

    from spark_jobs.protocol.progress import Progress

NEWEST_FORMAT = 2


def check_declared(pipeline: PipelineConfig, table: Table, *, takes_types: bool = False) -> None:
    """Raise ``ConfigError`` (``column-clash``): of other types than declared, or two of one name in files.

    For one that another engine requires too (``required-column``), and as ``refuse_newer_format``. What
    ``takes_types`` gives columns those that were declared.
    """
    refuse_newer_format(table)
    _check_layout(pipeline, table)
    passed_over = unlike_declared(pipeline, table.schema()) if takes_types else {}
    check_columns(
        table,
        {name: kind for name, kind in pipeline.declared.items() if name not in passed_over},
        key_is_binary=pipeline.key_is_binary,
        pipeline=pipeline.name,
        layout=pipeline.layout,
    )
    check_own(table, pipeline.declared)


def refuse_newer_format(table: Table) -> None:
    """Raise ``ConfigError`` (``table-format-3``) for a table that PyIceberg reads and cannot commit to."""
    if table.metadata.format_version > NEWEST_FORMAT:
        raise ConfigError(
            f"another engine upgraded the table to Iceberg's format {table.metadata.format_version}",
            code="table-format-3",
            hint=f"Sluice commits to format {NEWEST_FORMAT}, and no table goes back to that: nothing"
            " is drained into it, paused or not. Rename it away: the next run makes it anew from what Kafka"
            " still has, and the old one stays readable.",
            table=".".join(table.name()),
        )


def unlike_declared(pipeline: PipelineConfig, schema: Schema) -> dict[str, IcebergType]:
    """Return the declared types of columns that have others and cannot be widened to them."""
    there = {field.name: field.field_type for field in schema.fields}
    declared = {name: declared_type(text) for name, text in pipeline.declared.items() if name in there}
    return {name: kind for name, kind in declared.items() if widenings_to(there[name], kind, (name,)) is None}


def _check_layout(pipeline: PipelineConfig, table: Table) -> None:
    name = ".".join(table.name())
    there = progress_from_properties(table.properties, table=name).layout or Layout.FLAT.value
    if there != pipeline.layout.value:
        raise ConfigError(
            f"the table's layout is {there}, and the pipeline's {pipeline.layout.value}",
            code="column-clash",
            hint="Correct `layout`, or give the pipeline another `table`: rows cannot be both.",
            **pipeline.where,
        )


def declared_evolution(pipeline: PipelineConfig, schema: Schema) -> Evolution:
    """Return the declared columns that the table lacks, and those that are narrower than is declared.

    No record may decide their types. Raises ``ConfigError`` (``column-clash``) for a name that cannot stand
    beside the table's own.
    """
    known = known_fields(schema)
    names = {field.name for field in known}
    missing = [field for field in declared_fields(pipeline.declared) if field.name not in names]
    for field in missing:
        if clash := name_clash(field.name, by_lower_case([*missing, *known]), is_top=True):
            raise ConfigError(
                f"columns: {clash}",
                code="column-clash",
                hint="Declare it as the table writes it, or leave it out.",
                **pipeline.where,
            )
    widenings: dict[Path, IcebergType] = {}
    for name in names & pipeline.declared.keys():
        there, declared = schema.find_field(name).field_type, declared_type(pipeline.declared[name])
        widenings |= widenings_to(there, declared, (name,)) or {}
    return Evolution([((field.name,), iceberg_type(field.type), None) for field in missing], widenings)


def letter_evolution(pipeline: PipelineConfig, schema: Schema) -> Evolution:
    """Return the columns that the dead-letter table is to have and lacks.

    Raises ``ConfigError`` (``column-clash``) for one that it has in another type.
    """
    missing = []
    for name, column in pipeline.dead_letters.columns.items():
        there = schema.find_field(name).field_type if name in schema.column_names else None
        kind = declared_type(column.type)
        if there is None:
            missing.append(((name,), kind, None))
        elif type_text(there) != type_text(kind):
            raise ConfigError(
                f"column {name} of the dead-letter table is {type_text(there)}, not {type_text(kind)}",
                code="column-clash",
                hint=f"Declare it as {type_text(there)}, or under another name in dead_letters.columns.",
                pipeline=pipeline.name,
                table=pipeline.dead_letter_table,
            )
    return Evolution(missing)


def table_notes(pipeline: PipelineConfig, table: Table, progress: Progress) -> tuple[str, ...]:
    """Return sentences for a person: partitioned otherwise than was declared, a type half changed.

    Others are of columns to sort by that are not there yet, and of what upkeep leaves to somebody else.
    """
    notes = [_partition_note(pipeline, table), sort_note(pipeline, table.schema())]
    if table.properties.get("gc.enabled", "true").lower() == "false":
        notes.append(
            "gc.enabled is false: old snapshots and orphans stay, unless the catalog takes them away"
        )
    if (waiting := unfinished(progress.kept_columns)) is not None:
        kind = type_text(table.schema().find_type(waiting.column))
        mend = mends.act("retype", pipeline.name, waiting.column, f"'{kind}'")
        notes.append(f"the change of {waiting.column} to {kind} is not finished: {mend}")
    return tuple(note for note in notes if note is not None)


def sort_note(pipeline: PipelineConfig, schema: Schema) -> str | None:
    """Return which columns to sort by are not there yet; raises ``ConfigError`` where one has no order."""
    sort_order(schema, pipeline.table_sort_by)
    if not (lacking := columns_to_come(schema, pipeline.table_sort_by)):
        return None
    others = ", ".join(name for name in pipeline.table_sort_by if name not in lacking)
    told = f"rows are sorted by {others}" if others else "rows are not sorted"
    return f"sort_by names {count(len(lacking), 'column')} not there yet, {', '.join(lacking)}: {told}"


def _partition_note(pipeline: PipelineConfig, table: Table) -> str | None:
    schema, spec = table.schema(), table.spec()
    wanted = partition_terms(schema, partition_spec(schema, pipeline.table_partition_by, spec))
    there = partition_terms(schema, spec)
    if wanted == there:
        return None
    mend = mends.act("repartition", pipeline.name)
    return (
        f"partitioned by {', '.join(there) or 'nothing'}, declared {', '.join(wanted) or 'nothing'}: {mend}"
    )
