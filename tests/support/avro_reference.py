"""What a column must hold for bytes, from Avro's specification and the schema's own JSON.

Nothing of it is the code under test. fastavro takes any byte for a boolean, an index below zero for the last
branch, and integers of any size: of what is no value it says nothing.
"""

from __future__ import annotations

import io
import math
import struct
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

from tests.support.avro_generated import branch_name

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {"millis": 1_000_000, "micros": 1_000, "nanos": 1}
_DURATION = ("months", "days", "millis")


class NoRowError(Exception):
    """A value that no column can hold."""


@dataclass(frozen=True)
class Json:
    """A column of text must hold this as JSON."""

    content: Any


class Reference:
    """``named`` are the schema's named types by name."""

    def __init__(self, schema: Any, named: dict[str, Any]) -> None:
        self.schema = schema
        self.named = named

    def value(self, data: bytes) -> Any:
        """Return what the bytes say, as ``schemaless_writer`` takes it; raises ``NoRowError``."""
        rest = io.BytesIO(data)
        try:
            value = self._read(self.schema, rest)
        except UnicodeDecodeError:
            raise NoRowError from None
        if rest.read():
            raise NoRowError
        return value

    def row(self, value: Any) -> dict[str, Any]:
        """Return a value, as ``schemaless_writer`` takes it, by column; raises ``NoRowError``."""
        made = self._of(self.schema, value, ())
        return made if isinstance(made, dict) and self._is_record() else {"value": made}

    def _is_record(self) -> bool:
        schema = self.schema
        return (
            isinstance(schema, dict)
            and schema["type"] == "record"
            and any(each["type"] != "null" for each in schema["fields"])
        )

    def _read(self, schema: Any, rest: io.BytesIO) -> Any:
        schema = self._known(schema)
        if isinstance(schema, list):
            index = _long(rest)
            if not 0 <= index < len(schema):
                raise NoRowError
            branch = schema[index]
            return None if branch == "null" else (branch_name(branch), self._read(branch, rest))
        kind = schema if isinstance(schema, str) else schema["type"]
        match kind:
            case "record":
                return {each["name"]: self._read(each["type"], rest) for each in schema["fields"]}
            case "array":
                return [self._read(schema["items"], rest) for _ in _items(rest)]
            case "map":
                entries = [(_bytes(rest).decode(), self._read(schema["values"], rest)) for _ in _items(rest)]
                if len(dict(entries)) < len(entries):
                    raise NoRowError  # a key twice: one of them would be lost
                return dict(entries)
        return _primitive(kind, schema, rest)

    def _known(self, schema: Any) -> Any:
        return self.named[schema] if isinstance(schema, str) and schema in self.named else schema

    def _of(self, schema: Any, value: Any, inside: tuple[str, ...]) -> Any:
        schema = self._known(schema)
        if isinstance(schema, list):
            return self._union(schema, value, inside)
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind == "record":
            return self._record(schema, value, inside)
        if kind == "array":
            return [self._of(schema["items"], item, inside) for item in value]
        if kind == "map":
            return {key: self._of(schema["values"], item, inside) for key, item in value.items()}
        return _leaf(schema, value)

    def _record(self, schema: Any, value: Any, inside: tuple[str, ...]) -> Any:
        if schema["name"] in inside:
            return Json(self._shown(schema, value))
        made = {
            each["name"]: self._of(each["type"], value[each["name"]], (*inside, schema["name"]))
            for each in schema["fields"]
            if each["type"] != "null"
        }
        return made or True

    def _union(self, schema: list[Any], value: Any, inside: tuple[str, ...]) -> Any:
        if value is None:
            return None
        name, value = value
        (branch,) = (each for each in schema if branch_name(each) == name)
        made = self._of(branch, value, inside)
        return {name: made} if _has_many(schema) else made

    def _shown(self, schema: Any, value: Any) -> Any:
        """Return what is inside a type in itself, as JSON says it."""
        schema = self._known(schema)
        if isinstance(schema, list):
            if value is None:
                return None
            (branch,) = (each for each in schema if branch_name(each) == value[0])
            made = self._shown(branch, value[1])
            return {value[0]: made} if _has_many(schema) else made
        kind = schema if isinstance(schema, str) else schema["type"]
        match kind:
            case "record":
                shown = [each for each in schema["fields"] if each["type"] != "null"]
                return {each["name"]: self._shown(each["type"], value[each["name"]]) for each in shown}
            case "array":
                return [self._shown(schema["items"], item) for item in value]
            case "map":
                return {key: self._shown(schema["values"], item) for key, item in value.items()}
        return _as_json(schema, _leaf(schema, value))


def _has_many(union: list[Any]) -> bool:
    return len([each for each in union if each != "null"]) > 1


def _long(rest: io.BytesIO) -> int:
    number = 0
    for place in range(10):
        (byte,) = _take(rest, 1)
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if number >= 1 << 64:
                raise NoRowError
            return number >> 1 if number % 2 == 0 else -(number >> 1) - 1
    raise NoRowError


def _take(rest: io.BytesIO, size: int) -> bytes:
    taken = b"" if size < 0 else rest.read(min(size, 1 << 40))
    if len(taken) != size:
        raise NoRowError
    return taken


def _bytes(rest: io.BytesIO) -> bytes:
    return _take(rest, _long(rest))


def _items(rest: io.BytesIO) -> Any:
    while number := _long(rest):
        if number < 0:
            _long(rest)  # the block's size
        yield from range(abs(number))


def _primitive(kind: str, schema: Any, rest: io.BytesIO) -> Any:  # noqa: C901, PLR0911  (a line for each type)
    match kind:
        case "null":
            return None
        case "boolean":
            (byte,) = _take(rest, 1)
            if byte > 1:
                raise NoRowError
            return byte == 1
        case "int" | "long":
            number = _long(rest)
            if kind == "int" and not -(1 << 31) <= number < 1 << 31:
                raise NoRowError
            return number
        case "enum":
            index = _long(rest)
            if not 0 <= index < len(schema["symbols"]):
                raise NoRowError
            return schema["symbols"][index]
        case "float":
            return struct.unpack("<f", _take(rest, 4))[0]
        case "double":
            return struct.unpack("<d", _take(rest, 8))[0]
        case "fixed":
            return _take(rest, schema["size"])
        case "string":
            return _bytes(rest).decode()
    return _bytes(rest)


def _leaf(schema: Any, value: Any) -> Any:
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    return value if logical is None else _logical(logical, schema, value)


def _as_json(schema: Any, made: Any) -> Any:
    if isinstance(made, bytes):
        is_uuid = isinstance(schema, dict) and schema.get("logicalType") == "uuid"
        return str(UUID(bytes=made)) if is_uuid else made.decode("latin-1")
    if isinstance(made, float) and not math.isfinite(made):
        return "NaN" if math.isnan(made) else f"{'-' * (made < 0)}Infinity"
    if isinstance(made, date | time):
        return made.isoformat()
    return str(made) if isinstance(made, Decimal) else made


def _logical(logical: str, schema: Any, value: Any) -> Any:
    if logical == "decimal":
        number = int.from_bytes(value, "big", signed=True)
        if len(str(abs(number))) > schema["precision"]:
            raise NoRowError
        made = Decimal(number).scaleb(-schema["scale"], Context(prec=1000))
        return made if schema["precision"] <= 38 else f"{made:f}"
    if logical == "uuid":
        return _uuid(value) if isinstance(value, str) else value
    if logical == "duration":
        return dict(zip(_DURATION, struct.unpack("<III", value), strict=True))
    if logical == "date":
        return _moment(value * 86_400_000_000_000).date()
    unit = _UNITS[logical.rpartition("-")[2]]
    if logical.startswith("time-"):
        if not 0 <= value * unit < 86_400_000_000_000:
            raise NoRowError
        return _moment(value * unit).time()
    moment = _moment(value * unit)
    return moment.replace(tzinfo=None) if logical.startswith("local") else moment


def _uuid(text: str) -> bytes:
    try:
        found = UUID(text)
    except ValueError:
        raise NoRowError from None
    if str(found) != text.lower():
        raise NoRowError
    return found.bytes


def _moment(nanos: int) -> datetime:
    if nanos % 1000:
        raise NoRowError
    try:
        return _EPOCH + timedelta(microseconds=nanos // 1000)
    except OverflowError:
        raise NoRowError from None
