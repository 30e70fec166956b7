"""An independent implementation of the conversions, for one-by-one readers and audits.

By Python's own integers, decimals and times, whose years are 1 to 9999 too; what reads many values at once
is held against it, and shares nothing with it. A value that a type has no place for raises one of
``NO_VALUE``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from math import isfinite
from typing import Any, NoReturn

import pyarrow as pa

from spark_jobs.schema.arrow_schema import column_of, no_rows

Read = Callable[[Any], Any]
NO_VALUE = (ValueError, TypeError, ArithmeticError)
# So many bytes are fewer digits: none is rounded. Of twice as many a number takes seconds to make.
_MOST_DIGITS, _MOST_BYTES = 100_000, 41_500
_ALL_DIGITS = Context(prec=_MOST_DIGITS, traps=[Inexact])
_EPOCH, _ZONED_EPOCH = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)  # noqa: DTZ001  (local time)
_DAY = _EPOCH.date()
_UUID = re.compile("[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


def integer(number: int, bits: int, *, is_signed: bool = True) -> int:
    """Return an integer of this number of bits."""
    number.to_bytes(bits // 8, "big", signed=is_signed)
    return number


def decimal(content: bytes, precision: int | None, scale: int) -> Decimal:
    """Return the number of these big-endian bytes, with this many digits after the point.

    Raises ``OverflowError`` that says how many digits are too many.
    """
    if len(content) > _MOST_BYTES or abs(scale) > _MOST_DIGITS:
        raise OverflowError(f"more than {_MOST_DIGITS:,} digits")
    unscaled = int.from_bytes(content, "big", signed=True)
    if precision is not None and abs(unscaled) >= 10**precision:
        raise OverflowError(f"more than {precision} digits")
    return _ALL_DIGITS.scaleb(Decimal(unscaled), -scale)


def nearest(number: int | Decimal, kind: pa.DataType) -> float:
    """Return the nearest floating-point number."""
    # Arrow's own cast rounds the text once; by way of a double it would be rounded twice.
    is_single = pa.types.is_float32(kind)
    near = float(pa.scalar(str(number)).cast(kind).as_py() if is_single else number)
    return near if isfinite(near) else refuse(near)


def floating(number: int | Decimal, kind: pa.DataType) -> float:
    """Return the nearest floating-point number of a fraction, or the equal one of an integer."""
    near = nearest(number, kind)
    return refuse(number) if isinstance(number, int) and near != number else near


def uuid(text: str) -> bytes:
    """Return a UUID's bytes."""
    return bytes.fromhex(text.replace("-", "")) if _UUID.fullmatch(text) else refuse(text)


def day(days: int) -> date:
    """Return the date this many days after 1970-01-01."""
    return _DAY + timedelta(days)


def clock(micros: int) -> time:
    """Return the time of day this many microseconds after midnight."""
    moment = local(micros)
    return moment.time() if moment.date() == _DAY else refuse(micros)


def instant(micros: int) -> datetime:
    """Return the time this many microseconds after 1970 began."""
    return _ZONED_EPOCH + timedelta(microseconds=micros)


def local(micros: int) -> datetime:
    """Return the same time without a zone."""
    return _EPOCH + timedelta(microseconds=micros)


def refuse(value: object) -> NoReturn:
    """Raise one of ``NO_VALUE``."""
    raise ValueError(value)


# Text. Python's own readers of times are kept to the extended format: they cut digits off, and know weeks.


_DATE = "([0-9]{4})-[0-9]{2}-[0-9]{2}"
_MINUTES = r":[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6}0*)?)?"
_ZONE = r"(?:Z|[+-][0-9]{2}(?::?[0-5][0-9](?::[0-5][0-9])?)?)"
_EXTENDED = re.compile(rf"{_DATE}(?:[T ][0-9]{{2}}(?:{_MINUTES})?{_ZONE}?)?|[0-9]{{2}}{_MINUTES}")
_FINER = re.compile(r"([.][0-9]{6})[0-9]+")
_YEARS = timedelta(days=4 * 36_524 + 1)  # four hundred, after which the calendar is the same


def zoned(text: str) -> datetime:
    """Return a time with its zone; seconds are accepted too, which JSON columns refuse."""
    is_before = _extended(text).startswith("0000-")
    moment = datetime.fromisoformat("0400" + text[4:] if is_before else text)
    moment = moment.astimezone(UTC) if moment.tzinfo else refuse(text)
    return moment - _YEARS if is_before else moment


def is_finer(text: str) -> bool:
    """True if a time with a zone has digits below a microsecond."""
    try:
        return _FINER.search(text) is not None and zoned(_FINER.sub(r"\1", text)) is not None
    except NO_VALUE:
        return False


def _without_zone(text: str) -> datetime:
    moment = datetime.fromisoformat(_extended(text))
    return refuse(text) if moment.tzinfo else moment


def _extended(text: str) -> str:
    return text if _EXTENDED.fullmatch(text) else refuse(text)


# What is parsed, or has a schema, in a column.


def decimals(kind: pa.DataType) -> Read:
    """Return the converter from a number or text to a column's decimal."""
    unit = Decimal(1).scaleb(-kind.scale)
    # Arrow dies of exponents of some million digits.
    exact = Context(prec=kind.precision, traps=[Inexact, InvalidOperation])
    return lambda value: Decimal(_matching(_DECIMAL, value)).quantize(unit, context=exact)


def scalar(kind: pa.DataType) -> Read:
    """Return the converter from a parsed value to a column that is neither nested nor fractional."""
    return next(read for is_kind, read in _SCALARS if is_kind(kind))


def of(kind: Any, value: Any) -> Any:
    """Return the value if it has one of these types; a boolean is not a number."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(kind)
    return value


_SCALARS: tuple[tuple[Callable[[pa.DataType], bool], Read], ...] = (
    (pa.types.is_int32, lambda value: integer(of(int, value), 32)),
    (pa.types.is_integer, lambda value: integer(of(int, value), 64)),
    (pa.types.is_boolean, lambda value: of(bool, value)),
    (pa.types.is_string, lambda value: of(str, value)),
    (pa.types.is_large_string, lambda value: of(str, value)),
    (lambda kind: kind == pa.timestamp("us", "UTC"), zoned),
    (pa.types.is_timestamp, _without_zone),
    (pa.types.is_date32, lambda value: date.fromisoformat(_extended(value))),
    (pa.types.is_time64, lambda value: time.fromisoformat(_extended(value))),
    (lambda kind: kind == pa.uuid(), lambda value: uuid(of(str, value))),
    (lambda _: True, lambda value: of(str, value).encode()),
)
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,39})")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_NUMBER = re.compile(rf"{_INTEGER.pattern}(?:\.[0-9]{{1,40}})?(?:[eE][+-]?[0-9]{{1,3}})?")


def in_column(item: Any, kind: pa.DataType, beside: list[Any]) -> Any:
    """Return a value of another schema type as Arrow stores it, unless the type cannot represent it.

    Fields of structs that the type does not have are put ``beside``.
    """
    if item is None or not pa.types.is_nested(kind):
        return None if item is None else _in_column(item, kind)
    if pa.types.is_struct(kind):
        kinds = {field.name: field.type for field in kind}
        beside += [each for name, each in of(Mapping, item).items() if name not in kinds]
        return {name: in_column(item.get(name), each, beside) for name, each in kinds.items()}
    if pa.types.is_list(kind):
        return [in_column(each, kind.value_type, beside) for each in of(list, item)]
    entries = item.items() if isinstance(item, Mapping) else of(list, item)
    return [
        (in_column(key, kind.key_type, beside), in_column(each, kind.item_type, beside))
        for key, each in entries
    ]


def _in_column(item: Any, kind: pa.DataType) -> Any:
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _number(of(int | float | Decimal | str, item), kind)
    if pa.types.is_string(kind):
        return _text(item)
    if isinstance(item, str) or pa.types.is_boolean(kind):
        return scalar(kind)(item)
    return of(bytes | date | time, item)


def _number(item: Any, kind: pa.DataType) -> Any:
    if isinstance(item, float) and pa.types.is_floating(kind):
        return item
    if isinstance(item, float | Decimal):
        item = int(item) if item == int(item) else Decimal(repr(item)) if isinstance(item, float) else item
    if pa.types.is_decimal(kind):
        return decimals(kind)(item)
    if isinstance(_matching(_NUMBER, item), str):
        item = int(item) if _INTEGER.fullmatch(item) else Decimal(item)
    return of(int, item) if pa.types.is_integer(kind) else floating(item, kind)


def _matching(pattern: re.Pattern[str], value: Any) -> Any:
    if isinstance(value, str) and not pattern.fullmatch(value):
        raise ValueError(value)
    return of(int | Decimal | str, value)


def _text(item: Any) -> str:
    if isinstance(item, bytes):
        return item.decode()
    if isinstance(item, datetime | date | time):
        return item.isoformat()
    return f"{item:f}" if isinstance(item, Decimal) else str(of(int | str, item))


def stored(
    items: Mapping[str, Sequence[Any]], rows: list[int], columns: pa.Schema
) -> tuple[pa.Table, list[int]]:
    """Return the rows at these positions, from items by column, and the mask of values that fit."""
    try:
        arrays = [column_of([items[each.name][row] for row in rows], each.type) for each in columns]
    except (*NO_VALUE, pa.ArrowException):
        if len(rows) == 1:
            return no_rows(columns), []
        return stored(items, [row for row in rows if stored(items, [row], columns)[1]], columns)
    return pa.Table.from_arrays(arrays, schema=columns), rows
