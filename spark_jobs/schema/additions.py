"""The columns a table is to get: those that were declared since it was made, and those for new fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.kept import unfinished
from spark_jobs.protocol.progress import Progress, progress_from_properties
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
from spark_jobs.schema.metadata_columns import GENERATION, INGESTED_AT, OFFSET, PARTITION, TOPIC
from spark_jobs.schema.partitioning import columns_to_come, partition_spec, partition_terms, sort_order

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType


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
        raise fault(
            "table-format-3",
            version=table.metadata.format_version,
            newest=NEWEST_FORMAT,
            table=".".join(table.name()),
        )


def unlike_declared(pipeline: PipelineConfig, schema: Schema) -> dict[str, IcebergType]:
    """Return the declared types of columns that have others and cannot be widened to them."""
    there = {field.name: field.field_type for field in schema.fields}
    declared = {name: declared_type(text) for name, text in pipeline.declared.items() if name in there}
    return {name: kind for name, kind in declared.items() if widenings_to(there[name], kind, (name,)) is None}


def _check_layout(pipeline: PipelineConfig, table: Table) -> None:
    name = ".".join(table.name())
    there = progress_from_properties(table.properties, table=name).table_layout
    if there != pipeline.layout:
        raise fault("column-clash.layout", there=there, layout=pipeline.layout, **pipeline.where)


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
            raise fault("column-clash.declared", clash=clash, **pipeline.where)
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
            raise fault(
                "column-clash.dead-letters",
                name=name,
                there=type_text(there),
                type=type_text(kind),
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


# Required columns that nothing fills: another engine added them, and no row could be written any more.


# What no letter is without.
_OF_LETTERS = {TOPIC, PARTITION, OFFSET, GENERATION, INGESTED_AT, "phase", "error", "batch_id"}


def check_own(table: Table, declared: Collection[str]) -> None:
    """Raise ``ConfigError`` (``required-column``) for one that was added to a pipeline's own table.

    Sluice adds optional ones. One that was made required later is left to its records: those without a value
    are dead letters. So is one that is declared.
    """
    required = {
        each.field_id for each in table.schema().fields if each.required and each.name not in declared
    }
    first, *later = sorted(table.schemas().values(), key=lambda schema: schema.schema_id)
    seen = {each.field_id for each in first.fields}
    for schema in later:
        for each in schema.fields:
            if each.required and each.field_id in required - seen:
                raise required_column(".".join(table.name()), each.name, " Or declare it in `columns`.")
        seen |= {each.field_id for each in schema.fields}


def check_beside(
    own: Table, letters: Table | None, routed: Iterable[Table | None], declared: Collection[str]
) -> None:
    """Raise it for one of a dead-letter table, or of a table that rows are routed to, which theirs lack.

    ``declared`` are columns of letters.
    """
    filled = {field.name for field in own.schema().fields}
    for table, names in ((letters, {*_OF_LETTERS, *declared}), *((each, filled) for each in routed)):
        if table is not None:
            for each in table.schema().fields:
                if each.required and each.name not in names:
                    raise required_column(".".join(table.name()), each.name)


def required_column(table: str, column: str, or_else: str = "") -> SluiceError:
    """Return what to say of one without a value; ``or_else`` is another way out.

    A task knows of its table the location alone.
    """
    name = "TABLE" if "/" in table else table
    return fault("required-column", name=name, or_else=or_else, table=table, column=column)
