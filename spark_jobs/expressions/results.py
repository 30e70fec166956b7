"""Which column can take the result of which type, so that nothing is rounded: what DuckDB does, it is told to."""

from __future__ import annotations

import pyarrow as pa

from spark_jobs.expressions.engine import run
from spark_jobs.expressions.judging import ExpressionError

_READ_FROM_TEXT = (
    *(pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean),
    *(pa.types.is_date32, pa.types.is_time64, pa.types.is_timestamp),
)


def column_type(kind: str) -> pa.DataType:
    """Return the Arrow type of a column of this type of DuckDB's."""
    return run(f"SELECT NULL::{kind}").schema.field(0).type


def check_result(result: pa.DataType, column: pa.DataType, shown: str) -> None:
    """Raise ``ExpressionError`` where a column, whose type is ``shown`` so, takes no result of the type."""
    if not can_take(column, result):
        cast = "BLOB" if shown == "binary" else shown.upper()
        raise ExpressionError(
            f"gives {result}, and the column is {shown}", f"Write CAST(... AS {cast}), or declare another type."
        )


def check_condition(result: pa.DataType) -> None:
    """Raise ``ExpressionError`` for what is neither true nor false."""
    if not (pa.types.is_boolean(result) or pa.types.is_null(result)):
        raise ExpressionError(f"gives {result}, and a filter is true or false", "Compare it: amount > 0.")


def can_take(column: pa.DataType, result: pa.DataType) -> bool:
    """True if a column can take values of the type, each of them exactly or not at all."""
    if isinstance(column, pa.BaseExtensionType):
        return pa.types.is_string(result) or pa.types.is_null(result)
    if pa.types.is_nested(column):
        return pa.types.is_null(result) or _is_alike(column, result)
    if pa.types.is_null(result) or column == result:
        return True
    if pa.types.is_string(result):
        return any(is_kind(column) for is_kind in _READ_FROM_TEXT)
    if pa.types.is_integer(result):
        return _is_number(column)
    if pa.types.is_decimal(result):
        return pa.types.is_decimal(column) or pa.types.is_integer(column)
    if pa.types.is_float32(result):
        return pa.types.is_float64(column)
    if pa.types.is_timestamp(result) or pa.types.is_date32(result):
        has_zone = pa.types.is_timestamp(column) and column.tz is not None
        zone = pa.types.is_timestamp(result) and result.tz is not None
        return pa.types.is_timestamp(column) and has_zone is zone
    return pa.types.is_binary(result) and pa.types.is_fixed_size_binary(column)


def _is_alike(column: pa.DataType, result: pa.DataType) -> bool:
    if pa.types.is_struct(column):
        names = [field.name for field in column]
        is_same = pa.types.is_struct(result) and names == [field.name for field in result]
        return is_same and all(map(_fits_inside, (f.type for f in column), (f.type for f in result)))
    if pa.types.is_map(column):
        return pa.types.is_map(result) and all(
            map(_fits_inside, (column.key_type, column.item_type), (result.key_type, result.item_type))
        )
    return pa.types.is_list(result) and _fits_inside(column.value_type, result.value_type)


def _fits_inside(column: pa.DataType, result: pa.DataType) -> bool:
    """True where Arrow converts exactly by itself: what is inside is not read from text."""
    both = (column, result)
    return bool(
        column == result
        or all(map(pa.types.is_integer, both))
        or all(map(pa.types.is_decimal, both))
        or (pa.types.is_nested(column) and can_take(column, result))
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
