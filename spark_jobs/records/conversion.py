"""A column's values in another type: those that a record with them would fit, null for the others.

JSON's values by what a record's field may be. Those that have a schema also where a number and a text say the
same: how a producer would write it is nothing that a schema tells.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from math import isfinite
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.columns import GROWTH
from spark_jobs.formats.json.parsing import FractionLiteral, NearestLiteral
from spark_jobs.records.fitting import MisfitError, fit_record
from spark_jobs.schema.arrow_schema import column_of

_VALUE = "value"
# From here on a column of floating point has no place for every integer.
_EXACT_SINGLE, _EXACT_DOUBLE = 2.0**24, 2.0**53
_SHORT_INTEGER = r"^-?(0|[1-9][0-9]{0,17})$"
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,39})(\.\d{1,40})?([eE][+-]?\d{1,3})?", re.ASCII)


def refit(values: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """Return the values as ``kind``, null where a record that held the value would not fit it.

    So is a double that neighbouring integers are rounded to: nothing tells which of them the record had.
    """
    return _fitted(values, kind, partial(_as_written, kind=values.type))


def converted(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values of a schema's type, not nested, as ``kind``, null where that cannot say the same.

    A text is the number that JSON would write so, and an integer or a decimal its digits. A floating-point
    number is exact. ``may_convert`` says of which types there can be any.
    """
    if pa.types.is_string(values.type) and pa.types.is_integer(kind) and (made := _at_once(values, kind)):
        return made
    is_number = _is_number(kind)
    is_text = pa.types.is_string(kind)

    def said(value: Any) -> Any:
        if isinstance(value, float):
            return _number(value) if isfinite(value) else FractionLiteral(value)
        if is_text and isinstance(value, Decimal | int) and type(value) is not bool:
            return f"{value:f}" if isinstance(value, Decimal) else str(value)
        scalar = None if value is None else _scalar(value)
        if is_number and isinstance(scalar, str) and (match := _NUMBER.fullmatch(scalar)):
            return FractionLiteral(scalar) if any(match.groups()) else int(scalar)
        return scalar

    return _fitted(values, kind, said)


def _at_once(values: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Return ids that are kept as text, which are many, as integers; None where one of them is none."""
    if not pc.all(pc.match_substring_regex(values, _SHORT_INTEGER), min_count=0).as_py():
        return None
    with suppress(pa.ArrowInvalid):
        return values.cast(kind)
    return None


def may_convert(have: pa.DataType, kind: pa.DataType) -> bool:
    """True if some value of a schema's type is one of ``kind`` by ``converted``; a struct with all fields."""
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
    """True if a database that gives a column the other type comes to what ``converted`` does.

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


def _fitted(values: pa.Array | pa.ChunkedArray, kind: pa.DataType, said: Callable[[Any], Any]) -> pa.Array:
    fit = fit_record(pa.schema([pa.field(_VALUE, kind)]), GROWTH)

    def fitted(value: Any) -> Any:
        try:
            return fit({_VALUE: said(value)})[_VALUE]
        except (MisfitError, UnicodeDecodeError):
            return None

    return column_of([fitted(value) for value in values.to_pylist()], kind)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


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
