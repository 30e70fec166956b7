"""What columns must hold for bytes, from the rules of Protobuf's wire format and a message's descriptor.

Nothing of it is the code under test, nor the parser that this uses: Google's cuts numbers to the width of
their field and keeps what it does not know to itself.
"""

from __future__ import annotations

import base64
import io
import math
import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor import FieldDescriptor as Of
from google.protobuf.descriptor_pb2 import FileDescriptorProto

if TYPE_CHECKING:
    from google.protobuf.message import Message

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNSIGNED_64 = (Of.TYPE_UINT64, Of.TYPE_FIXED64)
_NUMBER, _FIXED_64, _BYTES, _, _END, _FIXED_32 = range(6)
# Said of a message beside its fields: that it has others, or one of them otherwise than the schema says.
_UNKNOWN, _WRONG = "", " "
_FIXED = {
    Of.TYPE_FIXED32: "<I",
    Of.TYPE_SFIXED32: "<i",
    Of.TYPE_FLOAT: "<f",
    Of.TYPE_FIXED64: "<Q",
    Of.TYPE_SFIXED64: "<q",
    Of.TYPE_DOUBLE: "<d",
}
_OF_BYTES = (Of.TYPE_MESSAGE, Of.TYPE_STRING, Of.TYPE_BYTES)


class NoRowError(Exception):
    """A value that no column can hold."""


@dataclass(frozen=True)
class Json:
    """A column of text must hold this as JSON."""

    content: Any


def message_of(kind: type[Message], data: bytes, *, ignores: bool = False) -> Message:
    """Return what the bytes say; raises ``NoRowError`` where they are no value of the message, or more.

    With ``ignores`` it may have unknown fields.
    """
    message = kind()
    try:
        _fill(message, _said(message.DESCRIPTOR, data, {}), ignores=ignores)
    except ValueError:  # more than a field holds, or a text that is not UTF-8
        raise NoRowError from None
    return message


def _said(message: Any, data: bytes, said: dict[str, Any]) -> dict[str, Any]:
    """Add to what was said of a message, by name, what these bytes say of it."""
    rest = io.BytesIO(data)
    while rest.tell() < len(data):
        number, wire = divmod(_number(rest, most_bits=32), 8)
        field = message.fields_by_number.get(number)
        if field is not None and wire == _wire_of(field):
            _say(field, rest, said)
        elif field is not None and field.is_repeated and wire == _BYTES:
            _say_packed(field, rest, said)
        else:
            _pass_over(number, wire, rest)
            said[_UNKNOWN if field is None else _WRONG] = True
    return said


def _say(field: Any, rest: io.BytesIO, said: dict[str, Any]) -> None:
    if field.containing_oneof is not None:
        for other in field.containing_oneof.fields:
            if other is not field:
                said.pop(other.name, None)
    if _is_map(field):
        entry = _said(field.message_type, _take(rest, _number(rest)), {})
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        none = {} if value.message_type is not None else value.default_value
        if _UNKNOWN in entry or _WRONG in entry:
            said[_WRONG] = True
        said.setdefault(field.name, {})[entry.get("key", key.default_value)] = entry.get("value", none)
    elif field.is_repeated:
        said.setdefault(field.name, []).append(_one_of(field, rest))
    else:
        said[field.name] = _one_of(field, rest, said.get(field.name))


def _say_packed(field: Any, rest: io.BytesIO, said: dict[str, Any]) -> None:
    packed = io.BytesIO(_take(rest, _number(rest)))
    while packed.tell() < len(packed.getbuffer()):
        said.setdefault(field.name, []).append(_one_of(field, packed))


def _pass_over(number: int, wire: int, rest: io.BytesIO) -> None:
    match wire:
        case 0:
            _number(rest)
        case 1:
            _take(rest, 8)
        case 5:
            _take(rest, 4)
        case 2:
            _take(rest, _number(rest))
        case 3 if number:
            while (inner := divmod(_number(rest, most_bits=32), 8)) != (number, _END):
                _pass_over(*inner, rest)
        case _:
            raise NoRowError
    if not number:
        raise NoRowError


@lru_cache(8)
def _checks_texts(file: Any) -> bool:
    told = FileDescriptorProto()
    file.CopyToProto(told)
    return bool(told.syntax == "proto3")


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _wire_of(field: Any) -> int:
    if field.type in _FIXED:
        return _FIXED_32 if struct.calcsize(_FIXED[field.type]) == 4 else _FIXED_64
    return _BYTES if field.type in _OF_BYTES else _NUMBER


def _one_of(  # noqa: PLR0911  (a line for each type)
    field: Any, rest: io.BytesIO, before: dict[str, Any] | None = None
) -> Any:
    """Return the next value of a field; a message that was there is said more of."""
    if field.type in _FIXED:
        (made,) = struct.unpack(_FIXED[field.type], _take(rest, struct.calcsize(_FIXED[field.type])))
        return made
    if field.type in _OF_BYTES:
        content = _take(rest, _number(rest))
        if field.message_type is not None:
            return _said(field.message_type, content, {} if before is None else before)
        if field.type == Of.TYPE_STRING:
            return content.decode(errors="strict" if _checks_texts(field.file) else "surrogateescape")
        return content
    number = _number(rest)
    match field.type:
        case Of.TYPE_BOOL:
            return number != 0
        case Of.TYPE_UINT32 | Of.TYPE_UINT64:
            return number
        case Of.TYPE_SINT32 | Of.TYPE_SINT64:
            return number >> 1 if number % 2 == 0 else -(number >> 1) - 1
    return number - (1 << 64) if number >> 63 else number


def _number(rest: io.BytesIO, *, most_bits: int = 64) -> int:
    number = 0
    for place in range(-(-most_bits // 7)):
        (byte,) = _take(rest, 1)
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if number >> most_bits:
                raise NoRowError
            return number
    raise NoRowError


def _take(rest: io.BytesIO, size: int) -> bytes:
    taken = rest.read(min(size, 1 << 40))
    if len(taken) != size:
        raise NoRowError
    return taken


def _fill(message: Any, said: dict[str, Any], *, ignores: bool) -> None:
    """Set what was said, which has to be as wide as its field."""
    if _WRONG in said or (said.pop(_UNKNOWN, False) and not ignores):
        raise NoRowError
    for name, item in said.items():
        field = message.DESCRIPTOR.fields_by_name[name]
        there = getattr(message, name)
        if _is_map(field):
            value = field.message_type.fields_by_name["value"]
            for key, each in item.items():
                if value.message_type is not None:
                    _fill(there[key], each, ignores=ignores)
                else:
                    there[key] = each
        elif field.is_repeated:
            for each in item:
                if field.message_type is not None:
                    _fill(there.add(), each, ignores=ignores)
                else:
                    there.append(each)
        elif field.message_type is not None:
            there.SetInParent()
            _fill(there, item, ignores=ignores)
        else:
            setattr(message, name, item)


def row_of(message: Message, inside: tuple[str, ...] | None = ()) -> dict[str, Any]:
    """Return a message by column, maps as dicts; raises ``NoRowError``.

    ``inside`` are the messages around it: one in itself is JSON; None: it is inside one.
    """
    around = None if inside is None else (*inside, message.DESCRIPTOR.full_name)
    return {each.name: _field(message, each, around) for each in message.DESCRIPTOR.fields}


def _field(message: Any, field: Any, inside: tuple[str, ...] | None) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    item = getattr(message, field.name)
    if _is_map(field):
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        return {_one(name, key, inside): _one(item[name], value, inside) for name in item}
    return [_one(each, field, inside) for each in item] if field.is_repeated else _one(item, field, inside)


def _one(item: Any, field: Any, inside: tuple[str, ...] | None) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(item)
        return known.name if known else str(item)
    if field.message_type is None:
        return Decimal(item) if field.type in _UNSIGNED_64 else item
    name = field.message_type.full_name
    if name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        return _time(item, is_moment=name.endswith("Timestamp"))
    if name.endswith("Value") and name.startswith("google.protobuf."):
        return Decimal(item.value) if name.endswith("UInt64Value") else item.value
    if not field.message_type.fields:
        return True
    return Json(_as_json(row_of(item, None))) if inside and name in inside else row_of(item, inside)


def _as_json(made: Any) -> Any:
    match made:
        case dict():
            return {str(name): _as_json(each) for name, each in made.items()}
        case list():
            return [_as_json(each) for each in made]
        case bytes():
            return base64.b64encode(made).decode()
        case Decimal():
            return int(made)
        case datetime():
            return made.isoformat()
        case float() if not math.isfinite(made):
            raise NoRowError  # JSON has no word for it
    return made


def _time(item: Any, *, is_moment: bool) -> Any:
    if item.nanos % 1000 or abs(item.nanos) >= 10**9 or (1 if is_moment else item.seconds) * item.nanos < 0:
        raise NoRowError
    micros = item.seconds * 10**6 + item.nanos // 1000
    if not is_moment:
        if not -(1 << 63) <= micros < 1 << 63:
            raise NoRowError
        return micros
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        raise NoRowError from None
