"""Arrow rows as the pandas frame that Great Expectations' own metrics are written for.

Whole numbers with nulls are floats there as long as no value changes by it, times are UTC without a zone,
nested values are JSON text, so that every expectation can compare and count them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.row_condition import moment_of

if TYPE_CHECKING:
    import pandas as pd

LARGEST_EXACT_FLOAT = 2**53


def top_level(columns: Iterable[str], schema: pa.Schema) -> tuple[str, ...]:
    """Return the table's columns that hold these; ``customer.country`` is in ``customer``."""
    known = set(schema.names)
    named = (column if column in known else column.partition(".")[0] for column in columns)
    return tuple(dict.fromkeys(name for name in named if name in known))


def to_frame(rows: pa.Table, columns: Iterable[str]) -> pd.DataFrame:
    """Return these columns, in this order; one that ``rows`` does not have is left out."""
    import pandas as pd  # noqa: PLC0415  (only suites need it)

    found = {name: column for name in columns if (column := _column(rows, name)) is not None}
    return pd.DataFrame(
        {name: _series(column) for name, column in found.items()}, index=pd.RangeIndex(len(rows))
    )


def to_arguments(kwargs: Mapping[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """Return the arguments, with texts compared to a column of times or dates turned into times."""
    names = [kwargs[key] for key in ("column", "column_A", "column_B") if key in kwargs]
    if not any(_is_temporal(schema, name) for name in names):
        return dict(kwargs)
    return {key: value if key in {"column", "regex"} else _as_time(value) for key, value in kwargs.items()}


def _column(rows: pa.Table, name: str) -> pa.ChunkedArray | None:
    if name in rows.column_names:
        return rows.column(name)
    first, *fields = name.split(".")
    if first not in rows.column_names or not _has_fields(rows.schema.field(first).type, fields):
        return None
    return pc.struct_field(rows.column(first), fields)


def _has_fields(kind: pa.DataType, fields: list[str]) -> bool:
    if not fields:
        return True
    if not pa.types.is_struct(kind):
        return False
    position = kind.get_field_index(fields[0])
    return position >= 0 and _has_fields(kind.field(position).type, fields[1:])


def _series(column: pa.ChunkedArray) -> Any:
    kind = column.type
    if pa.types.is_nested(kind):
        return _json_texts(column)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return column.cast(pa.timestamp(kind.unit)).to_pandas()
    if pa.types.is_integer(kind) and column.null_count and not _is_exact_as_float(column):
        return column.to_pandas(integer_object_nulls=True)
    return column.to_pandas(date_as_object=False)


def _is_exact_as_float(column: pa.ChunkedArray) -> bool:
    bounds = pc.min_max(column).as_py()
    return all(value is None or abs(value) <= LARGEST_EXACT_FLOAT for value in bounds.values())


def _json_texts(column: pa.ChunkedArray) -> list[str | None]:
    options = orjson.OPT_NON_STR_KEYS | orjson.OPT_SORT_KEYS
    return [
        None if value is None else orjson.dumps(_plain(value), default=str, option=options).decode()
        for value in column.to_pylist()
    ]


def _plain(value: Any) -> Any:
    """Return bytes as text; maps come from Arrow as pairs."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.hex() if isinstance(value, bytes) else value


def _is_temporal(schema: pa.Schema, name: object) -> bool:
    if not isinstance(name, str) or name not in schema.names:
        return False
    kind = schema.field(name).type
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _as_time(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_time(item) for item in value]
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)  # noqa: DTZ001  (as the columns are: UTC)
    if not isinstance(value, str):
        return value
    try:
        return moment_of(value)
    except ValueError:
        return value
