"""``partition_by`` terms as an Iceberg partition spec."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.partitioning import (
    PARTITION_FIELD_ID_START,
    UNPARTITIONED_PARTITION_SPEC,
    PartitionField,
    PartitionSpec,
)
from pyiceberg.schema import build_position_accessors
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import DecimalType, UUIDType

from spark_jobs.config.partition_terms import PartitionTerm, misfit, parse_partition_term
from spark_jobs.config.problems import UnreadableValueError
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.schema.free_names import free_name
from spark_jobs.schema.iceberg_types import type_text
from spark_jobs.schema.metadata_columns import HEADERS

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

_TRANSFORMS: dict[str, Callable[..., Transform[Any, Any]]] = {
    "identity": IdentityTransform,
    "bucket": BucketTransform,
    "truncate": TruncateTransform,
    "year": YearTransform,
    "month": MonthTransform,
    "day": DayTransform,
    "hour": HourTransform,
}


def partition_spec(
    schema: Schema, partition_by: Sequence[str], there: PartitionSpec = UNPARTITIONED_PARTITION_SPEC
) -> PartitionSpec:
    """Build the spec of terms like ``day(time_hour)``, ``bucket(16, id)``, ``origin``, in their order.

    A field is called by its column and transform, and has a number where a column is called so. Raises
    ``ConfigError`` for a term that is none, a column that does not exist, a type the transform does
    not take, unless the table is partitioned so already (``there``), or two terms on one column.
    """
    fields: list[PartitionField] = []
    for position, text in enumerate(partition_by):
        term = _parse(text)
        column = _find(schema, term)
        transform = _TRANSFORMS[term.transform](*(() if term.width is None else (term.width,)))
        if not any((each.source_id, each.transform) == (column.field_id, transform) for each in there.fields):
            _refuse_type(schema, term, column)
            _refuse_second(schema, fields, transform, column)
        if any(field.source_id == column.field_id for field in fields):
            raise ConfigError(
                f"partition_by names the column {term.column} twice",
                code="partition-twice",
                hint="Keep one term for each column; hour implies day.",
                term=term,
            )
        name = _free_name(term, {*schema.column_names, *(each.name for each in fields)})
        fields.append(PartitionField(column.field_id, PARTITION_FIELD_ID_START + position, transform, name))
    return PartitionSpec(*fields)


def partition_terms(schema: Schema, spec: PartitionSpec) -> tuple[str, ...]:
    """Return what the spec says of columns, for people and to compare: ``day(at)``, ``bucket[16](id)``."""
    return tuple(f"{each.transform}({schema.find_column_name(each.source_id)})" for each in spec.fields)


def _parse(text: str) -> PartitionTerm:
    try:
        return parse_partition_term(text)
    except UnreadableValueError as error:
        raise ConfigError(
            f"partition_by: {error}",
            code="partition-term",
            hint="Write a column, year|month|day|hour(column), bucket(16, column) or truncate(8, column).",
        ) from error


def _find(schema: Schema, term: PartitionTerm) -> NestedField:
    try:
        return schema.find_field(term.column)
    except ValueError as error:
        there = (name for name in schema.column_names if not name.startswith(f"{HEADERS}."))
        raise ConfigError(
            f"partition_by: there is no column {term.column}; there are: {', '.join(there)}",
            code="partition-column",
            hint="Name one of the table's columns; a field inside a struct with dots.",
            term=term,
        ) from error


def _free_name(term: PartitionTerm, taken: set[str]) -> str:
    """Return what the field is called: an identity as its column, any other as no column of the table."""
    if term.transform == "identity":
        return term.column
    name, lower = f"{term.column}_{term.transform}", {each.lower() for each in taken}
    return free_name(name, lower) if name.lower() in lower else name


def _refuse_type(schema: Schema, term: PartitionTerm, column: NestedField) -> None:
    wrong = misfit(term, type_text(column.field_type))
    if wrong is None and column.field_id not in build_position_accessors(schema):
        wrong = f"{term.column} has many values in a row", "Name a column, or a field inside structs alone."
    if wrong is not None:
        raise ConfigError(f"partition_by: {wrong[0]}", code="partition-type", hint=wrong[1], term=term)


def _refuse_second(
    schema: Schema, fields: Sequence[PartitionField], transform: Transform[Any, Any], column: NestedField
) -> None:
    """Refuse two values of a type that Avro names: Java writes the second as a name, unread by PyIceberg."""
    kind = transform.result_type(column.field_type)
    values = (each.transform.result_type(schema.find_type(each.source_id)) for each in fields)
    if isinstance(kind, DecimalType | UUIDType) and kind in values:
        raise ConfigError(
            f"partition_by has two values of {type_text(kind)}: once Spark has compacted the table, it is not"
            " read any more",
            code="partition-type",
            hint="Keep one, or write bucket(16, column) for the other.",
        )
