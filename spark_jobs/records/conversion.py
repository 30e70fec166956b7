"""A column's values in another type: those that a record with them would fit, null for the others."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from spark_jobs.config.new_fields import GROWTH
from spark_jobs.records.fitting import MisfitError, fit_record
from spark_jobs.records.json_parsing import FractionLiteral, NearestLiteral
from spark_jobs.schema.arrow_schema import column_of

_VALUE = "value"
# From here on a column of floating point has no place for every integer.
_EXACT_SINGLE, _EXACT_DOUBLE = 2.0**24, 2.0**53


def refit(values: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """Return the values as ``kind``, null where a record that held the value would not fit it.

    So is a double that neighbouring integers are rounded to: nothing tells which of them the record had.
    """
    fit = fit_record(pa.schema([pa.field(_VALUE, kind)]), GROWTH)

    def fitted(value: Any) -> Any:
        try:
            return fit({_VALUE: _as_written(value, values.type)})[_VALUE]
        except (MisfitError, UnicodeDecodeError):
            return None

    return column_of([fitted(value) for value in values.to_pylist()], kind)


def _as_written(value: Any, kind: pa.DataType) -> Any:
    """Return a value of a column as the record fields it stands for are parsed."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _as_written(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return {key: _as_written(each, kind.item_type) for key, each in value}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_as_written(each, kind.value_type) for each in value]
    if pa.types.is_floating(kind):
        is_exact = abs(value) < (_EXACT_SINGLE if pa.types.is_float32(kind) else _EXACT_DOUBLE)
        return _number(value) if is_exact else NearestLiteral(value)
    return _scalar(value)


def _scalar(value: Any) -> Any:
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, datetime | date | time | UUID):
        return str(value) if isinstance(value, UUID) else value.isoformat()
    return value.decode() if isinstance(value, bytes) else value


def _number(value: float | Decimal) -> Any:
    return int(value) if value == int(value) else FractionLiteral(str(value))
