"""Checks that a column can hold an expression's result type without rounding."""

from __future__ import annotations

import pyarrow as pa

from spark_jobs.expressions.engine import run
from spark_jobs.expressions.judging import ExpressionError


def _has_no_zone(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz is None)


def _has_zone(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz is not None)


_READ_FROM_TEXT = (
    *(pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean),
    *(pa.types.is_date32, pa.types.is_time64, pa.types.is_timestamp),
)
# What each of these results goes into, value by value: exactly, or it is a misfit.
_WITHOUT_ROUNDING = (
    *(
        (pa.types.is_integer, each)
        for each in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    ),
    *((pa.types.is_decimal, each) for each in (pa.types.is_integer, pa.types.is_decimal)),
    (pa.types.is_float32, pa.types.is_float64),
    (pa.types.is_date32, _has_no_zone),
    (_has_no_zone, _has_no_zone),
    (_has_zone, _has_zone),
    (pa.types.is_binary, pa.types.is_fixed_size_binary),
)


def column_type(kind: str) -> pa.DataType:
    """Return the Arrow type for a column of this DuckDB type."""
    return run(f"SELECT NULL::{kind}").schema.field(0).type


def check_result(result: pa.DataType, column: pa.DataType, shown: str) -> None:
    """Raise ``ExpressionError`` if a column, whose type is ``shown``, cannot hold the result type."""
    if not can_take(column, result):
        cast = "BLOB" if shown == "binary" else shown.upper()
        raise ExpressionError(
            f"gives {result}, and the column is {shown}",
            f"Write CAST(... AS {cast}), or declare another type.",
        )


def check_condition(result: pa.DataType, called: str = "a filter") -> None:
    """Raise ``ExpressionError`` if the result type is not boolean."""
    if not (pa.types.is_boolean(result) or pa.types.is_null(result)):
        raise ExpressionError(f"gives {result}, and {called} is true or false", "Compare it: amount > 0.")


def check_route_value(result: pa.DataType) -> None:
    """Raise ``ExpressionError`` if a type's values have several text forms."""
    plain = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_null)
    if not any(is_kind(result) for is_kind in plain):
        raise ExpressionError(
            f"gives {result}, and a route is by a text, a whole number or a boolean",
            "Write CAST(... AS VARCHAR).",
        )


def can_take(column: pa.DataType, result: pa.DataType) -> bool:
    """True if a column can hold values of the type, each exactly or not at all."""
    if pa.types.is_null(result) or column == result:
        return True
    if pa.types.is_string(result):
        is_read = any(is_kind(column) for is_kind in _READ_FROM_TEXT)
        return is_read or isinstance(column, pa.BaseExtensionType)
    if pa.types.is_nested(column):
        return _is_alike(column, result)
    return any(is_result(result) and is_column(column) for is_result, is_column in _WITHOUT_ROUNDING)


def _is_alike(column: pa.DataType, result: pa.DataType) -> bool:
    if pa.types.is_struct(column):
        names = [field.name for field in column]
        is_same = pa.types.is_struct(result) and names == [field.name for field in result]
        return bool(is_same) and all(map(_fits_inside, (f.type for f in column), (f.type for f in result)))
    if pa.types.is_map(column):
        return bool(pa.types.is_map(result)) and all(
            map(_fits_inside, (column.key_type, column.item_type), (result.key_type, result.item_type))
        )
    return bool(pa.types.is_list(result)) and _fits_inside(column.value_type, result.value_type)


def _fits_inside(column: pa.DataType, result: pa.DataType) -> bool:
    """True if Arrow converts the nested type exactly: nested values are not parsed from text."""
    both = (column, result)
    return bool(
        column == result
        or all(map(pa.types.is_integer, both))
        or all(map(pa.types.is_decimal, both))
        or (pa.types.is_nested(column) and can_take(column, result))
    )
