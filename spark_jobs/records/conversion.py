"""A column's values in another type: those that a record with them would fit, null for the others."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

import pyarrow as pa

from spark_jobs.config.new_fields import GROWTH
from spark_jobs.records.fitting import MisfitError, fit_record
from spark_jobs.records.json_parsing import FractionLiteral
from spark_jobs.schema.arrow_schema import column_of

_VALUE = "value"


def refit(values: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """Return the values as ``kind``, null where a record that held the value would not fit it."""
    fit = fit_record(pa.schema([pa.field(_VALUE, kind)]), GROWTH)

    def fitted(value: Any) -> Any:
        try:
            return fit({_VALUE: _as_written(value)})[_VALUE]
        except (MisfitError, UnicodeDecodeError):
            return None

    return column_of([fitted(value) for value in values.to_pylist()], kind)


def _as_written(value: Any) -> Any:
    """Return a value of a column as the record fields it stands for are parsed."""
    if isinstance(value, float | Decimal):
        return int(value) if isfinite(value) and value == int(value) else FractionLiteral(str(value))
    if isinstance(value, datetime | date | time | UUID):
        return str(value) if isinstance(value, UUID) else value.isoformat()
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {name: _as_written(each) for name, each in value.items()}
    if isinstance(value, list):
        is_map = bool(value) and isinstance(value[0], tuple)
        return _as_written(dict(value)) if is_map else list(map(_as_written, value))
    return value
