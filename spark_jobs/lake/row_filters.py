"""Row filters on one column.

PyIceberg declares its predicates' arguments as it serialises them, not as it takes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, In, LessThan

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.expressions import BooleanExpression


def equals(column: str, value: Any) -> BooleanExpression:
    """Rows whose column has the value."""
    return EqualTo(**_of(column, value))


def is_among(column: str, values: Iterable[Any]) -> BooleanExpression:
    """Rows whose column has one of the values."""
    wanted: dict[str, Any] = {"term": column, "values": set(values)}
    return In(**wanted)


def is_between(column: str, start: Any, end: Any) -> BooleanExpression:
    """Rows whose column is in ``[start, end)``."""
    return And(GreaterThanOrEqual(**_of(column, start)), LessThan(**_of(column, end)))


def _of(column: str, value: Any) -> dict[str, Any]:
    return {"term": column, "value": value}
