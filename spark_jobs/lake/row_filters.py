"""Row filters: on one column, and on the coordinates of records.

PyIceberg declares its predicates' arguments as it serialises them, not as it takes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, In, LessThan

from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.schema.metadata_columns import GENERATION, OFFSET, PARTITION

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression


def equals(column: str, value: Any) -> BooleanExpression:
    """Return rows whose column has the value."""
    return EqualTo(**_of(column, value))


def is_among(column: str, values: Iterable[Any]) -> BooleanExpression:
    """Return rows whose column has one of the values."""
    wanted: dict[str, Any] = {"term": column, "values": set(values)}
    return In(**wanted)


def is_between(column: str, start: Any, end: Any) -> BooleanExpression:
    """Return rows whose column is in ``[start, end)``."""
    return And(GreaterThanOrEqual(**_of(column, start)), LessThan(**_of(column, end)))


def is_in_range(offsets: OffsetRange, generation: int) -> BooleanExpression:
    """Return the filter for rows and dead letters of these offsets."""
    return And(
        equals(PARTITION, offsets.partition),
        equals(GENERATION, generation),
        is_between(OFFSET, offsets.start, offsets.end),
    )


def _of(column: str, value: Any) -> dict[str, Any]:
    return {"term": column, "value": value}
