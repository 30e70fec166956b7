"""Rules of type changes, and the spelling of types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from spark_jobs.config.iceberg_terms import check_type_name
from spark_jobs.config.problems import UnreadableValueError
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.value_format import ValueFormat
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.progress_parts import KeptColumn
from spark_jobs.records.decoder import shaping_of
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.iceberg_types import METADATA_COLUMNS, declared_type, type_text
from spark_jobs.values.exact import may_convert

if TYPE_CHECKING:
    from pyiceberg.table import Table


def spelled(type_name: str) -> str:
    """Return the type as ``type_of`` does; raises ``ConfigError`` (``cannot-retype``) if invalid."""
    try:
        check_type_name(type_name)
    except UnreadableValueError as error:
        raise fault("cannot-retype.type", why=str(error)) from error
    return type_text(declared_type(type_name))


def type_of(table: Table, column: str) -> str:
    """Return the column's type in its declared form."""
    return type_text(table.schema().find_type(column))


def refuse(
    pipeline: PipelineConfig, table: Table, column: str, type_name: str, waiting: KeptColumn | None
) -> None:
    """Raise ``ConfigError`` if the column cannot get the type."""
    columns = {field.name: field for field in table.schema().fields}
    others = {each.kept for each in progress_of(table).kept_columns}
    others |= {pipeline.record_key.column} if pipeline.record_key.format.has_schema else set()
    changeable = [name for name in columns if name not in METADATA_COLUMNS and name not in others]
    declared = pipeline.declared.get(column)
    at = pipeline.where
    pipeline.layout.refuse("retype", **at)
    if waiting is not None:
        to = type_of(table, waiting.column)
        raise fault("cannot-retype.unfinished", name=waiting.column, to=to, **at)
    if column not in changeable:
        raise fault("cannot-retype.column", name=column, found=", ".join(changeable), **at)
    if type_of(table, column) == type_name:
        raise fault("cannot-retype.same", name=column, to=type_name, **at)
    if declared is not None and type_text(declared_type(declared)) != type_name:
        raise fault("cannot-retype.declared", name=column, as_is=declared, **at)
    _refuse_partitioned(pipeline, table, column, type_name)
    if not _can_hold_any(pipeline, table, column, type_name):
        raise fault("cannot-retype.value", name=column, to=type_name, found=type_of(table, column), **at)


def _refuse_partitioned(pipeline: PipelineConfig, table: Table, column: str, type_name: str) -> None:
    """Refuse a column of a current or former partition field: Iceberg keeps old specs."""
    field_id = table.schema().find_field(column).field_id
    if any(field.source_id == field_id for field in table.spec().fields):
        raise fault("cannot-retype.partitioned", name=column, **pipeline.where)
    if any(field.name == column for spec in table.specs().values() for field in spec.fields):
        raise fault("cannot-retype.was-partitioned", name=column, to=type_name, **pipeline.where)


def _can_hold_any(pipeline: PipelineConfig, table: Table, column: str, type_name: str) -> bool:
    """True if the type can hold some values of the column, or of one of its former types."""
    (field,) = arrow_schema(Schema(NestedField(1, column, declared_type(type_name), required=False)))
    after = shaping_of(pipeline).decoded_field(field).type
    had = [each.kept for each in progress_of(table).kept_columns if each.column == column]
    is_tried = pipeline.value.format is ValueFormat.JSON  # value by value
    return is_tried or any(
        may_convert(each.type, after) for each in arrow_schema(table.schema()) if each.name in {column, *had}
    )
