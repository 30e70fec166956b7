"""Which types hold all values of which others, and which a column can be widened to.

Iceberg widens in the metadata alone: int to long, float to double, a decimal's precision.
"""

from __future__ import annotations

from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
)

_INTEGER_DIGITS: dict[type[IcebergType], int] = {IntegerType: 10, LongType: 19}
_NUMBERS = (IntegerType, LongType, FloatType, DoubleType, DecimalType)
_MOST_DIGITS = 38


def holds(column: IcebergType, written: IcebergType) -> bool:
    """True if every value of ``written`` is one of ``column``."""
    if column == written:
        return True
    if isinstance(column, DecimalType):
        return _whole_digits(written) <= column.precision - column.scale and _scale(written) <= column.scale
    if isinstance(written, IntegerType):
        return isinstance(column, LongType | DoubleType)
    return isinstance(written, FloatType) and isinstance(column, DoubleType)


def may_hold(column: IcebergType, written: IcebergType) -> bool:
    """True if some values of ``written`` are ones of ``column``: those that are none are found one by one."""
    if column == written or isinstance(written, FloatType):
        return holds(column, written)
    if isinstance(written, DecimalType):
        return isinstance(column, DecimalType)
    return isinstance(written, IntegerType | LongType) and isinstance(column, _NUMBERS)


def widened(column: IcebergType, written: IcebergType) -> IcebergType | None:
    """Return what the column can be made to hold every value of both, None where Iceberg cannot."""
    if isinstance(column, IntegerType) and isinstance(written, LongType):
        return LongType()
    if isinstance(column, FloatType) and isinstance(written, DoubleType):
        return DoubleType()
    if isinstance(column, DecimalType) and _scale(written) <= column.scale:
        digits = max(column.precision, _whole_digits(written) + column.scale)
        return DecimalType(digits, column.scale) if digits <= _MOST_DIGITS else None
    return None


def _whole_digits(kind: IcebergType) -> int:
    """Return how many digits before the point its values have at most; more than any for no exact number."""
    if isinstance(kind, DecimalType):
        return kind.precision - kind.scale
    return _INTEGER_DIGITS.get(type(kind), _MOST_DIGITS + 1)


def _scale(kind: IcebergType) -> int:
    return kind.scale if isinstance(kind, DecimalType) else 0
