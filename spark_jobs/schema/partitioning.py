"""``partition_by`` terms as an Iceberg partition spec."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
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

from spark_jobs.config.partition_terms import PartitionTerm, parse_partition_term
from spark_jobs.config.problems import UnreadableValueError
from spark_jobs.protocol.errors import ConfigError
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


def partition_spec(schema: Schema, partition_by: Sequence[str]) -> PartitionSpec:
    """Build the spec of terms like ``day(time_hour)``, ``bucket(16, id)``, ``origin``, in their order.

    Raises ``ConfigError`` for a term that is none, a column that does not exist, a type the transform does
    not take, or two terms on one column.
    """
    fields: list[PartitionField] = []
    for position, text in enumerate(partition_by):
        term = _parse(text)
        column = _find(schema, term)
        transform = _transform(term, column)
        if any(field.source_id == column.field_id for field in fields):
            raise ConfigError(
                f"partition_by names the column {term.column} twice",
                code="partition-twice",
                hint="Keep one term for each column; hour implies day.",
                term=term,
            )
        name = f"{term.column}_{term.transform}" if term.transform != "identity" else term.column
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


def _transform(term: PartitionTerm, column: NestedField) -> Transform[Any, Any]:
    make = _TRANSFORMS[term.transform]
    transform = make() if term.width is None else make(term.width)
    if not column.field_type.is_primitive or not transform.can_transform(column.field_type):
        raise ConfigError(
            f"partition_by: {term.transform} does not take the type of {term.column},"
            f" {type_text(column.field_type)}",
            code="partition-type",
            hint="Use another transform, or declare the column's type under `columns:`.",
            term=term,
        )
    return transform
