"""Strict one-by-one reader of rows, for values that the block reader is unsure of, and for audits."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from math import inf, nan
from typing import Any

import pyarrow as pa

from spark_jobs.formats.connect.types import Field, Kind, Leaf, Type
from spark_jobs.formats.json.plain import UNREADABLE, read_exactly
from spark_jobs.formats.tree import Array, Map, Record
from spark_jobs.schema.writer_schema import FINER_THAN_COLUMN, UnreadableValueError, clock_text, instant_text
from spark_jobs.values import plain


class PlainRows:
    """Reads rows of a type; with ``is_whole`` every required field must have a value."""

    def __init__(self, row: Record[Field], *, is_whole: bool) -> None:
        self._row = row
        self._is_whole = is_whole

    def read(self, value: bytes) -> dict[str, Any]:
        """Return a row by column. Raises ``UnreadableValueError``."""
        try:
            record = read_exactly(value)
        except UNREADABLE as error:
            raise UnreadableValueError(f"not JSON: {error}") from error
        if not self._is_whole and type(record) is dict:
            # A key may have more than its rows, as a router's name of the physical table.
            record = {field.name: record.get(field.name) for field in self._row.fields}
        row = _record(self._row, record, ())
        if self._is_whole:
            for field in self._row.fields:
                if not field.may_be_null and row[field.name] is None:
                    why = "null in a column that is never null, as sent for values such as NaN"
                    raise UnreadableValueError(why, field.name)
        return row


def _record(kind: Record[Field], value: Any, path: tuple[str, ...]) -> dict[str, Any]:
    if type(value) is not dict:
        raise UnreadableValueError("not an object", ".".join(path) or None)
    if unknown := value.keys() - {field.name for field in kind.fields}:
        raise UnreadableValueError("the schema does not contain it", ".".join((*path, min(unknown))))
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
            except UnreadableValueError as error:
                raise UnreadableValueError(str(error), ".".join(path)) from error
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


# One value as its column holds it. What Iceberg has no form for is refused, in words with the value.


_NOT_FINITE = {"NaN": nan, "Infinity": inf, "-Infinity": -inf}
_SHOWN = 60


def bytes_of(text: Any, _leaf: Leaf | None = None) -> bytes:
    """Return bytes that JSON contains as base64."""
    try:
        return b64decode(_text(text), validate=True)
    except (Error, ValueError) as error:
        raise _misfit(text, "not base64") from error


def decimal_of(text: Any, leaf: Leaf) -> Decimal:
    """Return a decimal that is written as the bytes of its unscaled value."""
    content = bytes_of(text)
    try:
        return plain.decimal(content, leaf.precision or None, leaf.scale)
    except OverflowError as error:
        raise _misfit(text, str(error)) from error


def number_text(text: Any, scale: int) -> str:
    """Return a decimal that no decimal column can hold, as text."""
    return format(decimal_of(text, Leaf(Kind.NUMBER_TEXT, scale=scale)), "f")


def time_text(number: int, leaf: Leaf) -> str:
    """Return a time as text with all its digits."""
    if leaf.kind is Kind.CLOCK_TEXT:
        return clock_text(number * leaf.unit_ns)
    try:
        return instant_text(number * leaf.unit_ns, "")
    except UnreadableValueError as error:
        raise _misfit(number, str(error)) from error


def read_leaf(leaf: Leaf, value: Any) -> Any:
    """Return a parsed value, with decimal fractions, in its column's type, or ``UnreadableValueError``."""
    if leaf.kind in _INTEGERS:
        value = _INTEGERS[leaf.kind](value, leaf)
    return _READ[leaf.kind](value, leaf) if leaf.kind in _READ else value


def _checked(read: Callable[[Any, Any], Any], why: str) -> Callable[[Any, Any], Any]:
    def convert(value: Any, leaf: Any) -> Any:
        try:
            return read(value, leaf)
        except plain.NO_VALUE as error:
            raise _misfit(value, why) from error

    return convert


_int = _checked(lambda number, _: plain.integer(plain.of(int, number), 32), "not an integer of 32 bits")
_long = _checked(lambda number, _: plain.integer(plain.of(int, number), 64), "not an integer of 64 bits")
_nearest = _checked(plain.floating, "a number that the column cannot hold")
uuid_of = _checked(lambda text, _: plain.uuid(_text(text)), "not a UUID")


def _zoned(value: Any, _leaf: Leaf) -> datetime:
    text = _text(value)
    try:
        return plain.zoned(text)
    except plain.NO_VALUE as error:
        why = "no time with a zone within the years 1 to 9999"
        raise _misfit(value, FINER_THAN_COLUMN if plain.is_finer(text) else why) from error


def _boolean(value: Any, _leaf: Leaf) -> bool:
    if type(value) is not bool:
        raise _misfit(value, "not a boolean")
    return value


def _floating(value: Any, leaf: Leaf) -> Any:
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if type(value) is bool or not isinstance(value, int | Decimal):
        raise _misfit(value, "not a number")
    return _nearest(value, pa.float32() if leaf.kind is Kind.FLOAT else pa.float64())


def _text(value: Any, _leaf: Leaf | None = None) -> str:
    if type(value) is not str:
        raise _misfit(value, "not a string")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _misfit(ascii(value), "half of a surrogate pair") from error
    return value


def scaled_text(value: Any, _leaf: Leaf) -> str:
    """Return the text of a number that is accompanied by its scale."""
    if type(value) is not dict or value.keys() != {"scale", "value"} or type(value["scale"]) is not int:
        raise _misfit(value, "not a number with its scale")
    return number_text(value["value"], value["scale"])


def _misfit(value: Any, why: str) -> UnreadableValueError:
    shown = str(value).encode(errors="backslashreplace").decode()  # halves of surrogate pairs too
    return UnreadableValueError(f"{shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '…'}: {why}")


_INTEGERS = {
    **dict.fromkeys((Kind.INT, Kind.DATE), _int),
    **dict.fromkeys((Kind.LONG, Kind.TIME, Kind.TIMESTAMP, Kind.CLOCK_TEXT, Kind.INSTANT_TEXT), _long),
}
_READ: dict[Kind, Callable[[Any, Leaf], Any]] = {
    Kind.DATE: _checked(lambda days, _: plain.day(days), "a date outside the years 1 to 9999, or infinite"),
    Kind.TIME: _checked(
        lambda number, leaf: plain.clock(number * leaf.unit_us),
        "no time of day: declare the column string, or long for the number",
    ),
    Kind.TIMESTAMP: _checked(
        lambda number, leaf: plain.local(number * leaf.unit_us),
        "a time outside the years 1 to 9999, or infinite",
    ),
    Kind.BOOLEAN: _boolean,
    Kind.FLOAT: _floating,
    Kind.DOUBLE: _floating,
    Kind.STRING: _text,
    Kind.BINARY: bytes_of,
    Kind.DECIMAL: decimal_of,
    Kind.NUMBER_TEXT: lambda value, leaf: number_text(value, leaf.scale),
    Kind.SCALED_TEXT: scaled_text,
    Kind.ZONED: _zoned,
    Kind.UUID: uuid_of,
    Kind.CLOCK_TEXT: time_text,
    Kind.INSTANT_TEXT: time_text,
}
