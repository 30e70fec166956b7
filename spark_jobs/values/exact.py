"""Exact conversion of values to a column's type: never rounded, truncated or guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from math import isfinite
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.columns import ColumnSettings
from spark_jobs.schema.arrow_schema import column_of
from spark_jobs.values.fitting import MisfitError, fit_value
from spark_jobs.values.literals import (
    FINER,
    SHORT_INTEGER,
    WITHOUT_FINER,
    FractionLiteral,
    NearestLiteral,
    number_of,
    shortened,
)
from spark_jobs.values.ranges import DAY_US, bounds, is_certain

# From here on a column of floating point has no place for every integer.
_EXACT_SINGLE, _EXACT_DOUBLE = 2.0**24, 2.0**53
_BOOLEANS = {"true": True, "false": False}
Misfits = dict[int, str]


def placed(values: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Misfits]:
    """Return the values as a column of the type, null if one does not fit, and the reasons by position."""
    if values.type == kind and not pa.types.is_temporal(kind):
        return values, {}
    if pa.types.is_null(values.type):
        return column_of([None] * len(values), kind), {}
    if pa.types.is_string(values.type):
        return from_text(values, kind)
    with suppress(pa.ArrowInvalid):
        return cast(values, kind), {}
    misfits: Misfits = {}
    for row in range(len(values)):
        try:
            cast(values.slice(row, 1), kind)
        except pa.ArrowInvalid:
            misfits[row] = _unfit(_python_value(values[row]), kind)
    rows = np.arange(len(values))
    return cast(values.take(pa.array(rows, mask=np.isin(rows, [*misfits]))), kind), misfits


def from_text(values: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Misfits]:
    """Return parsed texts: JSON numbers, ``true``, ISO dates and times, UUIDs."""
    if (made := _at_once(values, kind)) is not None:
        return made, {}
    fit = fit_value(kind)
    is_number = _is_number(kind)

    def read(text: str) -> Any:
        if pa.types.is_boolean(kind):
            return fit(_BOOLEANS.get(text, text))
        number = number_of(text) if is_number else None
        if number is None and pa.types.is_decimal(kind):
            raise MisfitError(_unfit(text, kind))
        is_taken = type(number) is int or (number is not None and not pa.types.is_integer(kind))
        return fit(number if is_taken else text)

    return column_read(values.to_pylist(), kind, read)


def from_epoch(values: pa.Array, unit_us: int, kind: pa.DataType) -> tuple[pa.Array, Misfits]:
    """Return whole numbers since 1970 as times, or as dates if they are whole days."""
    per = DAY_US if pa.types.is_date32(kind) else 1
    stored = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    lowest, highest = bounds(kind)
    if pa.types.is_timestamp(kind):
        with suppress(pa.ArrowInvalid):
            times = pc.multiply_checked(values, unit_us).cast(kind)
            if is_certain(times):
                return times, {}

    def read(number: int) -> int:
        times, rest = divmod(number * unit_us, per)
        if rest or not lowest <= times <= highest:
            raise MisfitError(_unfit(number, kind))
        return times

    times, misfits = column_read(values.to_pylist(), stored, read)
    return times.cast(kind), misfits


def formed(values: pa.Array, column: ColumnSettings, kind: pa.DataType) -> tuple[pa.Array, Misfits]:
    """Return a field's values, as they are written, in the column's declared type."""
    if column.fit is not None:
        values = pc.replace_substring_regex(values, FINER, WITHOUT_FINER)
    elif column.written_as is not None and column.written_as.is_epoch:
        return from_epoch(values, column.written_as.unit_us, kind)
    return placed(values, kind)


def column_read(
    values: Iterable[Any], kind: pa.DataType, read: Callable[[Any], Any]
) -> tuple[pa.Array, Misfits]:
    """Return the result of ``read`` for each value, null for None and for ``MisfitError``."""
    items: list[Any] = []
    misfits: Misfits = {}
    for row, value in enumerate(values):
        try:
            items.append(None if value is None else read(value))
        except MisfitError as misfit:
            items.append(None)
            misfits[row] = (
                misfit.message if len(misfit.path) < 1 else f"{'.'.join(misfit.path)}: {misfit.message}"
            )
    return column_of(items, kind), misfits


def _at_once(values: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Return texts that are all short integers or all times as such; None if one is not."""
    is_read = (
        bool(pc.all(pc.match_substring_regex(values, SHORT_INTEGER), min_count=0).as_py())
        if pa.types.is_integer(kind)
        else pa.types.is_timestamp(kind) or pa.types.is_date32(kind)
    )
    if is_read:
        with suppress(pa.ArrowInvalid):
            converted = values.cast(kind)
            return converted if is_certain(converted) else None
    return None


def cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return non-nested values in another type; raises ``pa.ArrowInvalid`` if one cannot be converted."""
    is_looked_at = pa.types.is_boolean(kind) and values.type != kind
    every = values
    if pa.types.is_decimal(kind) and (pa.types.is_integer(values.type) or pa.types.is_decimal(values.type)):
        scale = values.type.scale if pa.types.is_decimal(values.type) else 0
        # By way of all digits there are: Arrow looks at what a type could hold, not at what is there.
        every = values.cast(pa.decimal128(38, kind.scale if scale else 0))
        # Without room for more digits behind the point it makes another number.
        is_looked_at = kind.scale > scale
    converted = every.cast(kind)
    if is_looked_at and not converted.cast(values.type).equals(values):
        raise pa.ArrowInvalid("it is another value there")
    if pa.types.is_temporal(kind) and not is_certain(converted):
        raise pa.ArrowInvalid("outside the years 1 to 9999")
    return converted


def _python_value(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):  # a time that Python has none of: what it is counted as
        return value.value


def _unfit(value: object, kind: pa.DataType) -> str:
    return f"{shortened(str(value))} does not fit {str(kind).replace('decimal128', 'decimal')}"


# A column's values in another type: those that a record with them would fit, null for the others. JSON's
# values by what a record's field may be. Those that have a schema also where a number and a text say the
# same: how a producer would write it is nothing that a schema tells.


def refit(values: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """Return the values as ``kind``, null if a record with the value would not fit it.

    So is a double that neighbouring integers are rounded to: nothing tells which of them the record had.
    """
    return _fitted(values, kind, partial(_as_written, kind=values.type))


def converted(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return non-nested values of a schema's type as ``kind``, null if it cannot represent one.

    A text is the number that JSON would write so, and an integer or a decimal its digits. A floating-point
    number is exact. ``may_convert`` says of which types there can be any.
    """
    if pa.types.is_string(values.type) and (made := _at_once(values, kind)) is not None:
        return made
    if pa.types.is_floating(values.type) and pa.types.is_float64(kind):
        return values.cast(kind)  # infinite ones too, which no literal is
    is_number = _is_number(kind)
    is_text = pa.types.is_string(kind)

    def said(value: Any) -> Any:
        if isinstance(value, float):
            return _number(value) if isfinite(value) else FractionLiteral(value)
        if is_text and isinstance(value, Decimal | int) and type(value) is not bool:
            return f"{value:f}" if isinstance(value, Decimal) else str(value)
        scalar = None if value is None else _scalar(value)
        number = number_of(scalar) if is_number and isinstance(scalar, str) else None
        return scalar if number is None else number

    return _fitted(values, kind, said)


def may_convert(have: pa.DataType, kind: pa.DataType) -> bool:
    """True if some value of a schema's type fits ``kind`` by ``converted``; a struct needs all fields."""
    if pa.types.is_struct(have) and pa.types.is_struct(kind):
        inside = {field.name: field.type for field in kind}
        return all(field.name in inside and may_convert(field.type, inside[field.name]) for field in have)
    if pa.types.is_list(have) and pa.types.is_list(kind):
        return may_convert(have.value_type, kind.value_type)
    if pa.types.is_map(have) and pa.types.is_map(kind):
        return have.key_type == kind.key_type and may_convert(have.item_type, kind.item_type)
    if pa.types.is_nested(have) or pa.types.is_nested(kind):
        return False
    return bool(have == kind) or _may_say_the_same(have, kind)


def may_be_cast(have: pa.DataType, kind: pa.DataType) -> bool:
    """True if a database that changes the column's type gets the results of ``converted``.

    It writes times and bytes otherwise than JSON does, and of a double's digits a decimal gets fifteen.
    """
    is_written_otherwise = pa.types.is_timestamp(have) or pa.types.is_time(have) or _is_bytes(have)
    is_rounded = pa.types.is_floating(have) and pa.types.is_decimal(kind)
    return not (is_written_otherwise or is_rounded or _is_bytes(kind)) and may_convert(have, kind)


def _may_say_the_same(have: pa.DataType, kind: pa.DataType) -> bool:
    if _is_number(have):
        is_cut = pa.types.is_float64(have) and pa.types.is_float32(kind)
        is_shown = pa.types.is_string(kind) and not pa.types.is_floating(have)
        return is_shown or (_is_number(kind) and not is_cut)
    if pa.types.is_temporal(have):
        return bool(pa.types.is_string(kind))
    if _is_bytes(have):
        return pa.types.is_string(kind) or _is_bytes(kind)
    return bool(pa.types.is_string(have)) and not pa.types.is_boolean(kind)


def _fitted(values: pa.Array | pa.ChunkedArray, kind: pa.DataType, parse: Callable[[Any], Any]) -> pa.Array:
    fit = fit_value(kind)

    def fitted(value: Any) -> Any:
        try:
            return None if value is None else fit(parse(value))
        except (MisfitError, UnicodeDecodeError):
            return None

    return column_of([fitted(value) for value in values.to_pylist()], kind)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _as_written(value: Any, kind: pa.DataType) -> Any:
    """Return a column's value in the form in which record fields are parsed."""
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
