"""The strict one-by-one reader in Python, which every faster reader must agree with.

Not by fastavro: of an index below zero it takes the last symbol or branch, of any byte a boolean, it reads
integers past 64 bits as others, and overflows the stack on a record nested in itself some ten thousand times.
"""

from __future__ import annotations

import json
import math
import struct
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeAlias

from spark_jobs.formats.avro.columns import DURATION, MOST_DIGITS, VALUE, has_columns, is_whole
from spark_jobs.formats.avro.types import Again, Field, Kind, Leaf, ParsedSchema, Type, Union, is_null
from spark_jobs.formats.tree import Array, Map, Record
from spark_jobs.schema.writer_schema import FINER_THAN_COLUMN, UnreadableValueError, clock_text, instant_text
from spark_jobs.values import plain

# A value's types may nest so deep in themselves: a frame of Python each, of a thousand.
MAX_LEVELS = 400
_MOST_VARINT_BYTES = 10


class Cursor:
    """A value and the position read so far; ``levels`` are the positions' recursive types."""

    __slots__ = ("at", "data", "levels")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.levels = 0

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        end = self.at + size
        if not 0 <= size <= len(self.data) - self.at:
            raise UnreadableValueError(
                "a length below zero" if size < 0 else f"the value ends where {size:,} bytes should follow"
            )
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def long(self) -> int:
        """Return the next integer."""
        data, at, value, shift = self.data, self.at, 0, 0
        for byte in data[at : at + _MOST_VARINT_BYTES]:
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:  # noqa: PLR2004
                self.at = at + shift // 7
                if value >> 64:
                    break
                return (value >> 1) ^ -(value & 1)
        whole = shift == 7 * _MOST_VARINT_BYTES
        raise UnreadableValueError(
            "an integer of more than 64 bits" if whole else "the value ends in an integer"
        )


Read: TypeAlias = Callable[[Cursor], Any]


class PlainReader:
    """Reads values of one schema; everything derived from the types is computed once."""

    def __init__(self, schema: ParsedSchema) -> None:
        self._schema = schema
        self._as_text: dict[str, Read] = {}
        self._read = self._reader(schema.root, is_text=False)
        self._wrap = VALUE if is_whole(schema.root) else None

    def read(self, value: bytes) -> dict[str, Any]:
        """Return a value by column; raises ``UnreadableValueError``."""
        cursor = Cursor(value)
        read = self._read(cursor)
        if left := len(value) - cursor.at:
            raise UnreadableValueError(f"{left:,} bytes are left over")
        return read if self._wrap is None else {self._wrap: read}

    def _reader(self, kind: Type, *, is_text: bool) -> Read:
        match kind:
            case Leaf():
                return _leaf(kind, is_text=is_text)
            case Array(items):
                return _items(self._reader(items, is_text=is_text))
            case Map(values):
                return _entries(self._reader(values, is_text=is_text), is_text=is_text)
            case Union(branches):
                readers = [self._reader(branch.type, is_text=is_text) for branch in branches]
                return _branch(kind, readers)
            case Again(name, levels):
                return self._recursive_reader(name, levels, is_text=is_text)
            case Record(fields):
                readers = [self._reader(each.type, is_text=is_text) for each in fields]
                empty = None if has_columns(kind) else _empty(is_text=is_text)
                return _record(fields, readers, empty)

    def _recursive_reader(self, name: str, levels: int, *, is_text: bool) -> Read:
        def read(cursor: Cursor) -> Any:
            cursor.levels += levels + 1
            if cursor.levels > MAX_LEVELS:
                raise UnreadableValueError(f"{name} is nested too deep in itself")
            if name not in self._as_text:
                self._as_text[name] = self._reader(self._schema.type_of(name), is_text=True)
            value = self._as_text[name](cursor)
            cursor.levels -= levels + 1
            return value if is_text else json.dumps(value, ensure_ascii=False, separators=(",", ":"))

        return read


def _record(fields: Sequence[Field], readers: Sequence[Read], empty: Any) -> Read:
    steps = [(each.name, read, is_null(each.type)) for each, read in zip(fields, readers, strict=True)]

    def read(cursor: Cursor) -> Any:
        record = {}
        name = ""
        try:
            for name, read_field, is_silent in steps:
                value = read_field(cursor)
                if not is_silent:
                    record[name] = value
        except UnreadableValueError as error:
            raise _inside(error, name) from None
        return record if empty is None else empty

    return read


def _inside(error: UnreadableValueError, name: str) -> UnreadableValueError:
    return UnreadableValueError(str(error), name if error.field is None else f"{name}.{error.field}")


def _branch(union: Union, readers: Sequence[Read]) -> Read:
    names = [None if is_null(each.type) or union.only else each.name for each in union.branches]

    def read(cursor: Cursor) -> Any:
        index = cursor.long()
        if not 0 <= index < len(readers):
            raise UnreadableValueError(f"branch {index} of a union of {len(readers)}")
        name = names[index]
        if name is None:
            return readers[index](cursor)
        try:
            return {name: readers[index](cursor)}
        except UnreadableValueError as error:
            raise _inside(error, name) from None

    return read


def _items(read_item: Read) -> Read:
    def read(cursor: Cursor) -> list[Any]:
        items: list[Any] = []
        while (number := cursor.long()) != 0:
            if number < 0:
                cursor.long()  # the block's bytes, for those who pass over it
            items.extend(read_item(cursor) for _ in range(abs(number)))
        return items

    return read


def _entries(read_value: Read, *, is_text: bool) -> Read:
    def read(cursor: Cursor) -> Any:
        entries: dict[str, Any] = {}
        while (number := cursor.long()) != 0:
            if number < 0:
                cursor.long()
            for _ in range(abs(number)):
                key = _text(cursor)
                if key in entries:
                    raise UnreadableValueError("a map has a key twice")
                entries[key] = read_value(cursor)
        return entries if is_text else [*entries.items()]

    return read


def _text(cursor: Cursor) -> str:
    try:
        return cursor.take(cursor.long()).decode()
    except UnicodeDecodeError as error:
        raise UnreadableValueError("a text that is not UTF-8") from error


def _empty(*, is_text: bool) -> Any:
    return {} if is_text else True


def _leaf(leaf: Leaf, *, is_text: bool) -> Read:
    if leaf.kind in (Kind.NULL, Kind.EMPTY):
        value = None if leaf.kind is Kind.NULL else _empty(is_text=is_text)
        return lambda _: value
    raw = _raw(leaf)
    convert = CONVERSIONS.get(leaf.kind)
    if leaf.as_text:
        return lambda cursor: TEXTS[leaf.kind](raw(cursor))
    show = _SHOWN.get(leaf.kind) if is_text else None

    def read(cursor: Cursor) -> Any:
        value = raw(cursor)
        if convert is not None:
            value = convert(value, leaf)
        return value if show is None else show(value)

    return read if convert or show else raw


def _raw(leaf: Leaf) -> Read:  # noqa: PLR0911
    """Return the reader of a value as it is written, without its logical type."""
    match leaf.base:
        case "boolean":
            return lambda cursor: cursor.take(1)
        case "int" | "long" | "enum":
            return Cursor.long
        case "float":
            return lambda cursor: _FLOAT.unpack(cursor.take(4))[0]
        case "double":
            return lambda cursor: _DOUBLE.unpack(cursor.take(8))[0]
        case "string":
            return _text
        case "bytes":
            return lambda cursor: cursor.take(cursor.long())
    size = leaf.size
    return lambda cursor: cursor.take(size)


_FLOAT, _DOUBLE, _DURATION = struct.Struct("<f"), struct.Struct("<d"), struct.Struct("<III")


def _boolean(byte: bytes, _: Leaf) -> bool:
    if byte not in (b"\0", b"\1"):
        raise UnreadableValueError("a boolean that is neither 0 nor 1")
    return byte == b"\1"


def _symbol(index: int, leaf: Leaf) -> str:
    if not 0 <= index < len(leaf.symbols):
        raise UnreadableValueError(f"symbol {index} of an enum of {len(leaf.symbols)}")
    return leaf.symbols[index]


def _decimal(unscaled: bytes, leaf: Leaf) -> Decimal | str:
    try:
        number = plain.decimal(unscaled, leaf.precision, leaf.scale)
    except OverflowError as error:
        raise UnreadableValueError(f"a decimal of {error}") from error
    return number if leaf.precision <= MOST_DIGITS else f"{number:f}"


def _checked(read: Callable[[Any], Any], why: str) -> Callable[[Any, Leaf], Any]:
    def convert(value: Any, _: Leaf) -> Any:
        try:
            return read(value)
        except plain.NO_VALUE as error:
            raise UnreadableValueError(why) from error

    return convert


def _timestamp(read: Callable[[int], datetime], unit_ns: int) -> Callable[[int, Leaf], datetime]:
    held = _checked(read, "a time outside the years 1 to 9999")

    def convert(units: int, leaf: Leaf) -> Any:
        micros, finer = divmod(units * unit_ns, 1000)
        if finer:
            raise UnreadableValueError(f"a time {FINER_THAN_COLUMN}")
        return held(micros, leaf)

    return convert


def _duration(parts: bytes, _: Leaf) -> dict[str, int]:
    return dict(zip(DURATION, _DURATION.unpack(parts), strict=True))


_MILLIS_NS, _MICROS_NS = 1_000_000, 1000
CONVERSIONS: dict[Kind, Callable[[Any, Leaf], Any]] = {
    Kind.BOOLEAN: _boolean,
    Kind.INT: _checked(lambda number: plain.integer(number, 32), "an int of more than 32 bits"),
    Kind.ENUM: _symbol,
    Kind.DECIMAL: _decimal,
    Kind.UUID: _checked(
        lambda value: value if isinstance(value, bytes) else plain.uuid(value), "a text that is not a UUID"
    ),
    Kind.DATE: _checked(plain.day, "a date outside the years 1 to 9999"),
    Kind.TIME_MILLIS: _checked(lambda millis: plain.clock(millis * 1000), "a time outside a day"),
    Kind.TIME_MICROS: _checked(plain.clock, "a time outside a day"),
    Kind.TIMESTAMP_MILLIS: _timestamp(plain.instant, _MILLIS_NS),
    Kind.TIMESTAMP_MICROS: _timestamp(plain.instant, _MICROS_NS),
    Kind.TIMESTAMP_NANOS: _timestamp(plain.instant, 1),
    Kind.LOCAL_MILLIS: _timestamp(plain.local, _MILLIS_NS),
    Kind.LOCAL_MICROS: _timestamp(plain.local, _MICROS_NS),
    Kind.LOCAL_NANOS: _timestamp(plain.local, 1),
    Kind.DURATION: _duration,
}
# Times with all of their digits.
TEXTS: dict[Kind, Callable[[int], str]] = {
    Kind.TIME_MILLIS: lambda units: clock_text(units * _MILLIS_NS),
    Kind.TIME_MICROS: lambda units: clock_text(units * _MICROS_NS),
    Kind.TIMESTAMP_MILLIS: lambda units: instant_text(units * _MILLIS_NS),
    Kind.TIMESTAMP_MICROS: lambda units: instant_text(units * _MICROS_NS),
    Kind.TIMESTAMP_NANOS: instant_text,
    Kind.LOCAL_MILLIS: lambda units: instant_text(units * _MILLIS_NS, ""),
    Kind.LOCAL_MICROS: lambda units: instant_text(units * _MICROS_NS, ""),
    Kind.LOCAL_NANOS: lambda units: instant_text(units, ""),
}


def _latin(value: bytes) -> str:
    return value.decode("latin-1")  # as Avro's own JSON writes bytes


def finite(value: float) -> float | str:
    """Return a number as in JSON, or as text if it is not finite."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


_SHOWN: dict[Kind, Callable[[Any], Any]] = {
    Kind.BYTES: _latin,
    Kind.FIXED: _latin,
    Kind.FLOAT: finite,
    Kind.DOUBLE: finite,
    Kind.DECIMAL: str,
    Kind.UUID: lambda value: str(uuid.UUID(bytes=value)),
    **dict.fromkeys(
        (kind for kind in Kind if "time" in kind or kind is Kind.DATE), lambda value: value.isoformat()
    ),
}
