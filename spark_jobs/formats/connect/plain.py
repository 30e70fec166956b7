"""Rows read strictly, one by one: for those that a block is not sure of, and for audits."""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, Inexact
from math import inf, nan
from typing import Any, NoReturn
from uuid import UUID

import pyarrow as pa

from spark_jobs.formats.connect.types import Field, Kind, Leaf, Type
from spark_jobs.formats.tree import Array, Map, Record
from spark_jobs.schema.told import clock_text, instant_text
from spark_jobs.schema.writer_schema import FINER_THAN_COLUMN, UnreadableValueError


class PlainRows:
    """Reads rows of a type; with ``is_whole`` they have a value wherever their source says so."""

    def __init__(self, row: Record[Field], *, is_whole: bool) -> None:
        self._row = row
        self._is_whole = is_whole

    def read(self, value: bytes) -> dict[str, Any]:
        """Return a row by column. Raises ``UnreadableValueError``."""
        try:
            record = _JSON.decode(value.decode())
        except UnreadableValueError:
            raise
        except (ValueError, RecursionError) as error:
            raise UnreadableValueError(f"not JSON: {error}") from error
        if not self._is_whole and type(record) is dict:
            # A key may have more than its rows, as a router's name of the physical table.
            record = {field.name: record.get(field.name) for field in self._row.fields}
        row = _record(self._row, record, ())
        if self._is_whole:
            for field in self._row.fields:
                if not field.may_be_null and row[field.name] is None:
                    why = "null in a column that is never null: so is told what has no form, as NaN"
                    raise UnreadableValueError(why, field.name)
        return row


def _record(kind: Record[Field], value: Any, path: tuple[str, ...]) -> dict[str, Any]:
    if type(value) is not dict:
        raise UnreadableValueError("not an object", ".".join(path) or None)
    if unknown := value.keys() - {field.name for field in kind.fields}:
        raise UnreadableValueError("the schema does not name it", ".".join((*path, min(unknown))))
    return {
        field.name: _read(field.type, value.get(field.name), (*path, field.name)) for field in kind.fields
    }


def _read(kind: Type, value: Any, path: tuple[str, ...]) -> Any:
    if value is None:
        return None
    match kind:
        case Leaf():
            try:
                return read_leaf(kind, value)
            except MisfitError as misfit:
                raise UnreadableValueError(str(misfit), ".".join(path)) from misfit
        case Array(item):
            if type(value) is not list:
                raise UnreadableValueError("not an array", ".".join(path))
            return [_read(item, each, (*path, "element")) for each in value]
        case Map(item):
            if type(value) is not dict:
                raise UnreadableValueError("not an object", ".".join(path))
            return [(key, _read(item, each, (*path, "value"))) for key, each in value.items()]
        case Record():
            return _record(kind, value, path)


def _pairs(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise UnreadableValueError("a name is there twice")
    return made


def _refuse(text: str) -> NoReturn:
    raise UnreadableValueError(f"not JSON: {text}")


_JSON = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse, object_pairs_hook=_pairs)


# One value as its column holds it. What Iceberg has no form for is refused, in words with the value.


DAY_US = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO_DAY = date(1970, 1, 1).toordinal()
# The years 1 to 9999: what lies outside cannot be shown, nor can its file's statistics be read.
FIRST_DAY, LAST_DAY = date.min.toordinal() - _ZERO_DAY, date.max.toordinal() - _ZERO_DAY
FIRST_US, LAST_US = FIRST_DAY * DAY_US, (LAST_DAY + 1) * DAY_US - 1
_NOT_FINITE = {"NaN": nan, "Infinity": inf, "-Infinity": -inf}
_INTEGER_BITS = {Kind.INT: 32, Kind.LONG: 64, Kind.DATE: 32, Kind.TIME: 64, Kind.TIMESTAMP: 64}
_INTEGER_BITS |= {Kind.CLOCK_TEXT: 64, Kind.INSTANT_TEXT: 64}
# So many bytes are fewer digits: none is rounded. Of twice as many a number takes seconds to make.
_MOST_DIGITS, _MOST_BYTES = 100_000, 41_500
_ALL_DIGITS = Context(prec=_MOST_DIGITS, traps=[Inexact])
_SHOWN = 60


class MisfitError(ValueError):
    """A value that no column of its type holds."""


def bytes_of(text: Any) -> bytes:
    """Return the bytes that JSON writes as base64."""
    try:
        return b64decode(_text(text), validate=True)
    except (Error, ValueError) as error:
        raise _misfit(text, "not base64") from error


def decimal_of(text: Any, leaf: Leaf) -> Decimal:
    """Return a decimal that is written as the bytes of its digits."""
    digits = bytes_of(text)
    if len(digits) > _MOST_BYTES or abs(leaf.scale) > _MOST_DIGITS:
        raise _misfit(text, f"more than {_MOST_DIGITS:,} digits")
    unscaled = int.from_bytes(digits, signed=True)
    if leaf.precision and abs(unscaled) >= 10**leaf.precision:
        raise _misfit(text, f"more than {leaf.precision} digits")
    return _ALL_DIGITS.scaleb(Decimal(unscaled), -leaf.scale)


def number_text(text: Any, scale: int) -> str:
    """Return the same of one that no decimal column has room for, as text."""
    return format(decimal_of(text, Leaf(Kind.NUMBER_TEXT, scale=scale)), "f")


def uuid_of(text: Any) -> bytes:
    """Return a UUID's bytes."""
    try:
        parsed = UUID(_text(text))
    except ValueError as error:
        raise _misfit(text, "not a UUID") from error
    if str(parsed) != text.lower():
        raise _misfit(text, "not a UUID")
    return parsed.bytes


def time_text(number: int, leaf: Leaf) -> str:
    """Return the text of a time with all of its digits."""
    if leaf.kind is Kind.CLOCK_TEXT:
        return clock_text(number * leaf.unit_ns)
    try:
        return instant_text(number * leaf.unit_ns, "")
    except UnreadableValueError as error:
        raise _misfit(number, str(error)) from error


def read_leaf(leaf: Leaf, value: Any) -> Any:
    """Return a parsed value, fractions being decimals, as a column takes it. Raises ``MisfitError``."""
    if leaf.kind in _INTEGER_BITS:
        value = _integer(value, _INTEGER_BITS[leaf.kind])
    return _READ[leaf.kind](value, leaf)


def _date(days: int, _leaf: Leaf) -> date:
    if not FIRST_DAY <= days <= LAST_DAY:
        raise _misfit(days, "a date outside the years 1 to 9999, or infinite")
    return date.fromordinal(days + _ZERO_DAY)


def _time(number: int, leaf: Leaf) -> time:
    if not 0 <= number * leaf.unit_us < DAY_US:
        raise _misfit(number, "no time of day: declare the column string, or long for the number")
    return (_EPOCH + timedelta(microseconds=number * leaf.unit_us)).time()


def _timestamp(number: int, leaf: Leaf) -> datetime:
    if not FIRST_US <= number * leaf.unit_us <= LAST_US:
        raise _misfit(number, "a time outside the years 1 to 9999, or infinite")
    return (_EPOCH + timedelta(microseconds=number * leaf.unit_us)).replace(tzinfo=None)


def _zoned(value: Any, _leaf: Leaf) -> datetime:
    try:
        read = datetime.fromisoformat(_text(value)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise _misfit(value, "no time with a zone within the years 1 to 9999") from error
    fraction = value.partition(".")[2].rstrip("Z").partition("+")[0].partition("-")[0]
    if len(fraction.rstrip("0")) > 6:  # noqa: PLR2004  (digits of a microsecond)
        raise _misfit(value, FINER_THAN_COLUMN)
    return read


def _boolean(value: Any, _leaf: Leaf) -> bool:
    if type(value) is not bool:
        raise _misfit(value, "not a boolean")
    return value


def _floating(value: Any, leaf: Leaf) -> float:
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if type(value) is bool or not isinstance(value, int | Decimal):
        raise _misfit(value, "not a number")
    if abs(read := _nearest(str(value), leaf)) == inf or (type(value) is int and Decimal(read) != value):
        raise _misfit(value, "a number that the column cannot hold")
    return read


def _nearest(text: str, leaf: Leaf) -> float:
    if leaf.kind is Kind.DOUBLE:
        return float(text)
    # By way of a double it would be rounded twice.
    return float(pa.scalar(text).cast(pa.float32()).as_py())


def _text(value: Any, _leaf: Leaf | None = None) -> str:
    if type(value) is not str:
        raise _misfit(value, "not a string")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _misfit(ascii(value), "half of a surrogate pair") from error
    return value


def _scaled_text(value: Any, _leaf: Leaf) -> str:
    if type(value) is not dict or value.keys() != {"scale", "value"} or type(value["scale"]) is not int:
        raise _misfit(value, "not a number with its scale")
    return number_text(value["value"], value["scale"])


def _integer(value: Any, bits: int) -> int:
    if type(value) is not int or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise _misfit(value, f"not an integer of {bits} bits")
    return value


def _misfit(value: Any, why: str) -> MisfitError:
    shown = str(value)
    return MisfitError(f"{shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '…'}: {why}")


_READ: dict[Kind, Callable[[Any, Leaf], Any]] = {
    Kind.INT: lambda value, _: value,
    Kind.LONG: lambda value, _: value,
    Kind.DATE: _date,
    Kind.TIME: _time,
    Kind.TIMESTAMP: _timestamp,
    Kind.BOOLEAN: _boolean,
    Kind.FLOAT: _floating,
    Kind.DOUBLE: _floating,
    Kind.STRING: _text,
    Kind.BINARY: lambda value, _: bytes_of(value),
    Kind.DECIMAL: decimal_of,
    Kind.NUMBER_TEXT: lambda value, leaf: number_text(value, leaf.scale),
    Kind.SCALED_TEXT: _scaled_text,
    Kind.ZONED: _zoned,
    Kind.UUID: lambda value, _: uuid_of(value),
    Kind.CLOCK_TEXT: time_text,
    Kind.INSTANT_TEXT: time_text,
}
