"""Numbers of more than 64 bits, which no serializer writes, and of which Google's parser takes the lowest."""

from __future__ import annotations

import re

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from spark_jobs.schema.writer_schema import UnreadableValueError

# A text may have them too, so they are looked for where a value has numbers.
_LIKE_ONE = re.compile(rb"[\x80-\xff]{9}[\x02-\x7f]")
_NUMBER, _FIXED_64, _BYTES, _GROUP, _GROUP_END, _FIXED_32 = range(6)
_OF = FieldDescriptor
_PACKED = frozenset(
    {
        *(_OF.TYPE_INT32, _OF.TYPE_INT64, _OF.TYPE_UINT32, _OF.TYPE_UINT64),
        *(_OF.TYPE_SINT32, _OF.TYPE_SINT64, _OF.TYPE_BOOL, _OF.TYPE_ENUM),
    }
)


def refuse_long_numbers(value: bytes, message: Descriptor) -> None:
    """Raise ``UnreadableValueError`` if a value, which could be parsed, has a number of more than 64 bits."""
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
