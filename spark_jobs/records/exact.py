"""Values in the type of a column, each exactly or not at all: never rounded, cut or guessed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.columns import GROWTH, ColumnSettings
from spark_jobs.formats.json.arrow_reader import is_certain
from spark_jobs.formats.json.parsing import FractionLiteral, shortened
from spark_jobs.records.fitting import MisfitError, fit_record
from spark_jobs.records.timestamps import FINER, WITHOUT_FINER
from spark_jobs.schema.arrow_schema import column_of

_VALUE = "value"
_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,39})", re.ASCII)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,39})(?:\.\d{1,40})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_SHORT_INTEGER = r"^-?(0|[1-9][0-9]{0,17})$"
_BOOLEANS = {"true": True, "false": False}
_DAY_US = 86_400_000_000
Misfits = dict[int, str]


def placed(values: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Misfits]:
    """Return the values as a column of the type, null where one does not fit, and by position why not."""
    if values.type == kind and not pa.types.is_temporal(kind):
        return values, {}
    if pa.types.is_null(values.type):
        return column_of([None] * len(values), kind), {}
    if pa.types.is_string(values.type):
        return from_text(values, kind)
    with suppress(pa.ArrowInvalid):
        return _cast(values, kind), {}
    misfits = {
        row: _unfit(_told(values[row]), kind) for row in range(len(values)) if not _fits(values, row, kind)
    }
    return _cast(_without(values, misfits), kind), misfits


def from_text(values: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Misfits]:
    """Return texts as what they say: numbers as JSON has them, ``true``, ISO dates and times, UUIDs."""
    if (made := _at_once(values, kind)) is not None:
        return made, {}
    fit = fitting(kind)

    def read(text: str) -> Any:
        if pa.types.is_boolean(kind):
            return fit(_BOOLEANS.get(text, text))
        if pa.types.is_integer(kind) and _INTEGER.fullmatch(text):
            return fit(int(text))
        if pa.types.is_floating(kind) and _NUMBER.fullmatch(text):
            return fit(int(text) if _INTEGER.fullmatch(text) else FractionLiteral(text))
        if pa.types.is_decimal(kind) and not _NUMBER.fullmatch(text):
            raise MisfitError(_unfit(text, kind))
        return fit(text)

    return column_read(values.to_pylist(), kind, read)


def from_epoch(values: pa.Array, unit_us: int, kind: pa.DataType) -> tuple[pa.Array, Misfits]:
    """Return whole numbers since 1970 as times, or as days where they are whole days."""
    per = unit_us if pa.types.is_timestamp(kind) else 1

    def read(number: int) -> int:
        days, rest = divmod(number * unit_us, _DAY_US)
        made = number * per if pa.types.is_timestamp(kind) else days
        if (rest and pa.types.is_date32(kind)) or not _is_shown(made, kind):
            raise MisfitError(_unfit(number, kind))
        return made

    if pa.types.is_timestamp(kind):
        with suppress(pa.ArrowInvalid):
            made = pc.multiply_checked(values, per).cast(kind)
            if is_certain(made):
                return made, {}
    stored, misfits = column_read(values.to_pylist(), pa.int64(), read)
    return stored.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind), misfits


def formed(values: pa.Array, column: ColumnSettings, kind: pa.DataType) -> tuple[pa.Array, Misfits]:
    """Return a field's values, as they are written, in the type that the column is declared in."""
    if column.fit is not None:
        values = pc.replace_substring_regex(values, FINER, WITHOUT_FINER)
    elif column.written_as is not None and column.written_as.is_epoch:
        return from_epoch(values, column.written_as.unit_us, kind)
    return placed(values, kind)


def column_read(
    values: Iterable[Any], kind: pa.DataType, read: Callable[[Any], Any]
) -> tuple[pa.Array, Misfits]:
    """Return what is read of each value, null of None and where ``MisfitError`` is raised."""
    made: list[Any] = []
    misfits: Misfits = {}
    for row, value in enumerate(values):
        try:
            made.append(None if value is None else read(value))
        except MisfitError as misfit:
            made.append(None)
            misfits[row] = (
                misfit.message if len(misfit.path) < 1 else f"{'.'.join(misfit.path)}: {misfit.message}"
            )
    return column_of(made, kind), misfits


def fitting(kind: pa.DataType) -> Callable[[Any], Any]:
    """Return what makes of a parsed JSON value what a declared column of the type holds."""
    fit = fit_record(pa.schema([pa.field(_VALUE, kind)]), GROWTH)

    def read(value: Any) -> Any:
        try:
            return fit({_VALUE: value})[_VALUE]
        except MisfitError as misfit:
            raise MisfitError(misfit.message, misfit.path[1:]) from None

    return read


def _at_once(values: pa.Array, kind: pa.DataType) -> pa.Array | None:
    is_read = (
        bool(pc.all(pc.match_substring_regex(values, _SHORT_INTEGER), min_count=0).as_py())
        if pa.types.is_integer(kind)
        else pa.types.is_timestamp(kind) or pa.types.is_date32(kind)
    )
    if is_read:
        with suppress(pa.ArrowInvalid):
            made = values.cast(kind)
            return made if is_certain(made) else None
    return None


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_integer(values.type) and pa.types.is_decimal(kind):
        values = values.cast(pa.decimal128(38, 0))  # straight, Arrow wants room for any integer
    made = values.cast(kind)
    if pa.types.is_boolean(kind) and values.type != kind and not made.cast(values.type).equals(values):
        raise pa.ArrowInvalid("neither 0 nor 1")
    if pa.types.is_temporal(kind) and not is_certain(made):
        raise pa.ArrowInvalid("outside the years 1 to 9999")
    return made


def _told(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):  # a time that Python has none of: what it is counted as
        return value.value


def _fits(values: pa.Array, row: int, kind: pa.DataType) -> bool:
    try:
        _cast(values.slice(row, 1), kind)
    except pa.ArrowInvalid:
        return False
    return True


def _without(values: pa.Array, misfits: Misfits) -> pa.Array:
    rows = np.arange(len(values))
    return values.take(pa.array(rows, mask=np.isin(rows, [*misfits])))


def _is_shown(stored: int, kind: pa.DataType) -> bool:
    try:
        width = pa.int32() if pa.types.is_date32(kind) else pa.int64()
        return is_certain(pa.array([stored], width).cast(kind))
    except (pa.ArrowInvalid, OverflowError):
        return False


def _unfit(value: object, kind: pa.DataType) -> str:
    return f"{shortened(str(value))} does not fit {str(kind).replace('decimal128', 'decimal')}"
