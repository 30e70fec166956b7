"""The strict one-by-one reader, by upb, which every faster reader must agree with.

Parsers cut a number to 32 bits, drop what they do not know, and take any number for a boolean. So a value is
parsed by the same message with wider numbers, and fields that are unknown are looked for at every level, as
are numbers of more than 64 bits.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

from google.protobuf import descriptor_pool, json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorSet
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Parsed
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from spark_jobs.formats.protobuf.types import WELL_KNOWN, Field, Kind, Leaf, Message, Type
from spark_jobs.formats.tree import Array, Map, Record
from spark_jobs.schema.writer_schema import (
    FINER_THAN_COLUMN,
    Form,
    UnreadableValueError,
    instant_text,
    seconds_text,
)
from spark_jobs.values import plain

# As functions: a field may have the name of a method.
_has, _list_fields = Empty.HasField, Empty.ListFields
_NANOS = 1_000_000_000
_STRUCT = f"{WELL_KNOWN}struct.proto"  # what makes JSON of it knows its types
_OF = FieldDescriptorProto
_WIDER = {
    _OF.TYPE_INT32: _OF.TYPE_INT64,
    _OF.TYPE_SINT32: _OF.TYPE_SINT64,
    _OF.TYPE_UINT32: _OF.TYPE_UINT64,
    _OF.TYPE_ENUM: _OF.TYPE_INT64,
}


class PlainReader:
    """Reads values of one message; with ``ignores`` unknown fields are counted instead of refused.

    ``root`` is its tree; ``tree`` gives that of a message inside itself.
    """

    def __init__(
        self,
        files: FileDescriptorSet,
        name: str,
        root: Message,
        tree: Callable[[str], Message],
        *,
        ignores: bool,
    ) -> None:
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file if file.name == _STRUCT else _widened(file))
        self._class = GetMessageClass(pool.FindMessageTypeByName(name))
        self._tree = tree
        self._root = root
        self._ignores = ignores

    def read(self, value: bytes) -> tuple[dict[str, Any], dict[str, int]]:
        """Return a value by column and its unknown fields by number path, or ``UnreadableValueError``."""
        try:
            message = self._class.FromString(value)
        except (DecodeError, UnicodeDecodeError) as error:
            raise UnreadableValueError(f"not a value of the message: {error}") from error
        refuse_long_numbers(value, self._class.DESCRIPTOR)
        reading = _Reading(self._tree)
        try:
            row = reading.fields(message, self._root.fields, (), ())
        except UnicodeDecodeError as error:
            raise UnreadableValueError(f"a text is not UTF-8: {error.reason}") from error
        if reading.unknown and not self._ignores:
            numbers = ", ".join(sorted(reading.unknown))
            raise UnreadableValueError(f"fields that are not in the schema, by number: {numbers}")
        return row, reading.unknown


class _Reading:
    """One value being read; ``in_json`` is set inside a recursive message."""

    def __init__(self, tree: Callable[[str], Message]) -> None:
        self.unknown: dict[str, int] = {}
        self._tree = tree
        self._in_json = False

    def fields(
        self, message: Any, fields: Iterable[Field], path: tuple[str, ...], numbers: tuple[str, ...]
    ) -> dict[str, Any]:
        """Return a message's fields by name."""
        self._count_unknown(message, numbers)
        row: dict[str, Any] = {}
        for each in fields:
            if each.has_presence and not _has(message, each.name):
                row[each.name] = None
            else:
                item, known = getattr(message, each.name), (*numbers, str(each.number))
                row[each.name] = self._item(item, each.type, (*path, each.name), known)
        return row

    def _item(self, item: Any, kind: Type, path: tuple[str, ...], numbers: tuple[str, ...]) -> Any:
        match kind:
            case Leaf(Kind.AGAIN):
                return self._read_recursive(item, kind.message, path, numbers)
            case Leaf():
                if isinstance(item, Parsed):
                    self._count_unknown(item, numbers, is_deep=kind.kind is Kind.JSON)
                item_value = leaf(item.value if kind.is_wrapped else item, kind, path)
                return json.loads(item_value) if self._in_json and kind.kind is Kind.JSON else item_value
            case Array(element):
                here, known = (*path, "element"), (*numbers, "element")
                return [self._item(each, element, here, known) for each in item]
            case Map(inner, key):
                here, known = (*path, "value"), (*numbers, "value")
                names = {leaf(name, key, (*path, "key")): name for name in item}
                pairs = [
                    (item_value, self._item(item[names[item_value]], inner, here, known))
                    for item_value in sorted(names)
                ]
                return {str(name): each for name, each in pairs} if self._in_json else pairs
            case Record(fields):
                return self.fields(item, fields, path, numbers)

    def _read_recursive(self, item: Any, name: str, path: tuple[str, ...], numbers: tuple[str, ...]) -> Any:
        was, self._in_json = self._in_json, True
        inside = self.fields(item, self._tree(name).fields, path, numbers)
        self._in_json = was
        return inside if was else _json_text(inside, path)

    def _count_unknown(self, message: Any, numbers: tuple[str, ...], *, is_deep: bool = False) -> None:
        known_numbers = type(message).DESCRIPTOR.fields_by_number
        for each in UnknownFieldSet(message):
            name = ".".join((*numbers, str(each.field_number)))
            if each.field_number in known_numbers:
                # Of another type than it should be, or a map's entry with more than a key and a value.
                raise UnreadableValueError(f"not valid by the schema, field number {name}")
            self.unknown[name] = self.unknown.get(name, 0) + 1
        if is_deep:
            for known, item in _list_fields(message):
                for inner in _messages(item) if known.message_type is not None else ():
                    self._count_unknown(inner, (*numbers, str(known.number)), is_deep=True)


def leaf(item: Any, kind: Leaf, path: tuple[str, ...]) -> Any:  # noqa: PLR0911  (a line for each kind)
    """Return a field's value as its column holds it; raises ``UnreadableValueError`` if it cannot."""
    match kind.kind:
        case Kind.STRING if isinstance(item, bytes):  # as proto2 gives something that is not text
            raise UnreadableValueError("the text is not UTF-8", ".".join(path))
        case Kind.INT:
            return _checked(_int, item, path)
        case Kind.UINT32:
            return _checked(partial(plain.integer, bits=32, is_signed=False), item, path)
        case Kind.UINT64:
            return Decimal(item)
        case Kind.ENUM:
            return kind.symbols.get(_checked(_int, item, path), str(item))
        case Kind.TIMESTAMP | Kind.DURATION:
            try:
                return moment(item.seconds, item.nanos, kind)
            except UnreadableValueError as error:
                raise UnreadableValueError(str(error), ".".join(path)) from error
        case Kind.JSON:
            return _json_text(item, path)
        case Kind.EMPTY:
            return True
    return item


def moment(seconds: int, nanos: int, kind: Leaf) -> Any:
    """Return a timestamp or duration in its configured form. Raises ``UnreadableValueError``."""
    is_time, every = kind.kind is Kind.TIMESTAMP, seconds * _NANOS + nanos
    if abs(nanos) >= _NANOS:
        raise UnreadableValueError(f"{nanos} nanoseconds are a second or more")
    if (1 if is_time else seconds) * nanos < 0:
        raise UnreadableValueError("its nanoseconds are of another sign than its seconds")
    if kind.form is Form.TEXT:
        return instant_text(every) if is_time else seconds_text(every)
    if kind.form is Form.NUMBER:
        return _checked(_long, every, ())
    if nanos % 1000:
        raise UnreadableValueError(f"{nanos} nanoseconds are {FINER_THAN_COLUMN}")
    return _checked(plain.instant if is_time else _long, every // 1000, ())


def _checked(read: Callable[[int], Any], number: int, path: tuple[str, ...]) -> Any:
    try:
        return read(number)
    except plain.NO_VALUE as error:
        what = f"{number} is more than the column holds"
        raise UnreadableValueError(what, ".".join(path) or None) from error


_int, _long = (partial(plain.integer, bits=bits) for bits in (32, 64))


def _json_text(content: Any, path: tuple[str, ...]) -> str:
    try:
        parsed = json_format.MessageToDict(content) if isinstance(content, Parsed) else content
        return json.dumps(parsed, default=_shown, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (json_format.Error, ValueError, RecursionError, TypeError) as error:
        raise UnreadableValueError(f"it cannot be JSON: {error}", ".".join(path)) from error


def _shown(item: Any) -> Any:
    if isinstance(item, bytes):
        return base64.b64encode(item).decode()
    return int(item) if isinstance(item, Decimal) else item.isoformat()


def _messages(item: Any) -> Iterable[Any]:
    if isinstance(item, Parsed):
        return [item]
    values = item.values() if isinstance(item, Mapping) else item
    return [each for each in values if isinstance(each, Parsed)]


def _widened(file: Any) -> Any:
    """Return the same file with number types wide enough for the written values."""
    wider = type(file)()
    wider.CopyFrom(file)
    wider.ClearField("extension")  # no column is made of them: they are unknown fields
    for message in wider.message_type:
        _widen(message)
    return wider


def _widen(message: DescriptorProto) -> None:
    message.ClearField("extension")
    for field in message.field:
        if field.type in _WIDER:
            field.type = _WIDER[field.type]
            field.ClearField("type_name")
        field.ClearField("default_value")  # what is not there is null
    for inner in message.nested_type:
        _widen(inner)


# Numbers of more than 64 bits, which no serializer writes, and of which Google's parser takes the lowest.


# A text may have them too, so they are looked for where a value has numbers.
_LIKE_ONE = re.compile(rb"[\x80-\xff]{9}[\x02-\x7f]")
_NUMBER, _FIXED_64, _BYTES, _GROUP, _GROUP_END, _FIXED_32 = range(6)
_FIELD = FieldDescriptor
_PACKED = frozenset(
    {
        *(_FIELD.TYPE_INT32, _FIELD.TYPE_INT64, _FIELD.TYPE_UINT32, _FIELD.TYPE_UINT64),
        *(_FIELD.TYPE_SINT32, _FIELD.TYPE_SINT64, _FIELD.TYPE_BOOL, _FIELD.TYPE_ENUM),
    }
)


def refuse_long_numbers(value: bytes, message: Descriptor) -> None:
    """Raise ``UnreadableValueError`` if a parseable value contains a number of more than 64 bits."""
    if _LIKE_ONE.search(value):
        _look(value, message)


def _look(value: bytes, message: Descriptor) -> None:
    at, groups = 0, 0
    while at < len(value):
        mark, at = _number(value, at)
        match mark & 7:
            case wire if wire == _NUMBER:
                _, at = _number(value, at)
            case wire if wire in (_GROUP, _GROUP_END):  # unknown fields
                groups += 1 if wire == _GROUP else -1
            case wire if wire == _BYTES:
                size, at = _number(value, at)
                field = None if groups else message.fields_by_number.get(mark >> 3)
                if field is not None:
                    _look_inside(value[at : at + size], field)
                at += size
            case wire:
                at += 8 if wire == _FIXED_64 else 4


def _look_inside(content: bytes, field: FieldDescriptor) -> None:
    if field.message_type is not None:
        _look(content, field.message_type)
    elif field.is_repeated and field.type in _PACKED:
        at = 0
        while at < len(content):
            _, at = _number(content, at)


def _number(value: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = value[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:  # noqa: PLR2004
            break
    if number >> 64:
        raise UnreadableValueError("a number of more than 64 bits")
    return number, at
