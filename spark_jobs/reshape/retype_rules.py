"""Whether a column can be given another type, and how the type is spelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from spark_jobs.config.iceberg_terms import check_type_name
from spark_jobs.config.problems import UnreadableValueError
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.value_format import ValueFormat
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.kept import KeptColumn
from spark_jobs.records.shaping import shaping_of
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.iceberg_types import declared_type, type_text
from spark_jobs.schema.metadata_columns import METADATA_COLUMNS
from spark_jobs.values.exact import may_convert

if TYPE_CHECKING:
    from pyiceberg.table import Table


def spelled(type_name: str) -> str:
    """Return the type as ``type_of`` does; raises ``ConfigError`` (``cannot-retype``) where there is none."""
    try:
        check_type_name(type_name)
    except UnreadableValueError as error:
        raise fault("cannot-retype.type", why=str(error)) from error
    return type_text(declared_type(type_name))


def type_of(table: Table, column: str) -> str:
    """Return the column's type as it is declared."""
    return type_text(table.schema().find_type(column))


def refuse(
    pipeline: PipelineConfig, table: Table, column: str, type_name: str, waiting: KeptColumn | None
) -> None:
    """Raise ``ConfigError`` where the column cannot be given the type."""
    columns = {field.name: field for field in table.schema().fields}
    others = {each.kept for each in progress_of(table).kept_columns}
    others |= {pipeline.record_key.column} if pipeline.record_key.format.has_schema else set()
    changeable = [name for name in columns if name not in METADATA_COLUMNS and name not in others]
    declared = pipeline.declared.get(column)
    if pipeline.is_archive:
        message, hint = (
            "an archive keeps each record's bytes",
            "Read the type that you want from a flat table.",
        )
    elif pipeline.is_mirror:
        message, hint = (
            "a mirror's columns have the types of their source",
            "Change them there: the column is widened, or drains stop until the mirror is made anew.",
        )
    elif pipeline.envelope is not None:
        message, hint = (
            "what change events say has the types of their source",
            "Change them there: the column is widened, or another stands beside it.",
        )
    elif waiting is not None:
        message = f"the change of {waiting.column} to {type_of(table, waiting.column)} is not finished"
        mend = mends.act("retype", pipeline.name, waiting.column, f"'{type_of(table, waiting.column)}'")
        hint = f"Finish it first: {mend}."
    elif column not in changeable:
        message = f"{column} is no column whose type can be changed"
        hint = f"There are: {', '.join(changeable)}. A field inside a struct changes with its whole column."
    elif type_of(table, column) == type_name:
        message, hint = f"column {column} is {type_name} already", "There is nothing to do."
    elif declared is not None and type_text(declared_type(declared)) != type_name:
        message = f"sluice.yaml declares {column} as {declared}"
        hint = "Declare the type it is to have: drains are refused while the two differ."
    elif (partitioned := _of_partitioning(pipeline, table, column, type_name)) is not None:
        message, hint = partitioned
    elif not _can_hold_any(pipeline, table, column, type_name):
        message = f"no value of {column} can be {type_name}: it is {type_of(table, column)}"
        hint = (
            "Text can become numbers, times, UUIDs and bytes; integers, decimals and times text; a number"
            " another number; a struct one with all of its fields. New records would only be dead letters."
        )
    else:
        return
    raise fault("cannot-retype", message=message, hint=hint, **pipeline.where)


def _of_partitioning(
    pipeline: PipelineConfig, table: Table, column: str, type_name: str
) -> tuple[str, str] | None:
    """Return what speaks against another column of the name, and what to do: Iceberg keeps past specs."""
    field_id = table.schema().find_field(column).field_id
    if any(field.source_id == field_id for field in table.spec().fields):
        mend = mends.act("repartition", pipeline.name)
        return f"the table is partitioned by {column}", f"Change partition_by first, then: {mend}."
    if any(field.name == column for spec in table.specs().values() for field in spec.fields):
        return (
            f"the table was partitioned by {column}, and Iceberg keeps the name for this column alone",
            f"Have another beside it: `columns: {{{column}_2: {{type: {type_name}, sql: {column}}}}}`.",
        )
    return None


def _can_hold_any(pipeline: PipelineConfig, table: Table, column: str, type_name: str) -> bool:
    """True if the type takes some values of the column's, or of a type that the column had before."""
    (made,) = arrow_schema(Schema(NestedField(1, column, declared_type(type_name), required=False)))
    after = shaping_of(pipeline).written(made).type
    had = [each.kept for each in progress_of(table).kept_columns if each.column == column]
    is_tried = pipeline.value.format is ValueFormat.JSON  # value by value
    return is_tried or any(
        may_convert(each.type, after) for each in arrow_schema(table.schema()) if each.name in {column, *had}
    )
