"""Which schema a value names: an id before it, or in a header, as Confluent's serializers write it.

Prefix: a zero byte, the id in four, then the value. Header ``__value_schema_id``: a byte 1, a GUID in
sixteen; the value is then bare, and what a header says wins. In Protobuf indexes follow the id, which of the
schema's messages it is: how many, then each, as zigzag varints; a zero alone is the first message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from uuid import UUID

import numpy as np

from spark_jobs.protocol.schema_id import SchemaId, SchemaKey

VALUE_HEADER = "__value_schema_id"
_PREFIX_BYTES = 5
_BY_NUMBER, _BY_GUID = b"\x00", b"\x01"
_GUID_BYTES = 17
_FIRST_MESSAGE = b"\x00"
_MOST_INDEXES, _VARINT_BYTES = 32, 5
_LONGEST_BYTES = _PREFIX_BYTES + _VARINT_BYTES * (_MOST_INDEXES + 1)
_KEYS_KEPT = 1024
_FEW_FRAMES = 8


class UnframedError(ValueError):
    """A value that names no schema."""


@dataclass(slots=True)
class Framed:
    """Values by the schema they name: their indices, and each bare; ``unframed`` say by index why not."""

    indices: dict[SchemaKey | None, list[int]] = field(default_factory=dict)
    values: dict[SchemaKey | None, list[bytes]] = field(default_factory=dict)
    unframed: dict[int, str] = field(default_factory=dict)

    def add(self, key: SchemaKey, index: int, value: bytes) -> None:
        """Put a bare value beside those of its schema."""
        if key not in self.indices:
            self.indices[key], self.values[key] = [], []
        self.indices[key].append(index)
        self.values[key].append(value)


Headers = Sequence[tuple[str, bytes | None]] | None


def unframe(values: Sequence[bytes], headers: Sequence[Headers], *, has_indexes: bool = False) -> Framed:
    """Sort values by the schema they name."""
    if not any(headers) and (framed := _by_few_frames(values, has_indexes=has_indexes)) is not None:
        return framed
    framed = Framed()
    for index, (value, beside) in enumerate(zip(values, headers, strict=True)):
        try:
            if (header := _header(beside)) is not None:
                framed.add(_by_guid(header, has_indexes=has_indexes), index, value)
            else:
                key, size = _by_number(_beginning(value, has_indexes=has_indexes), has_indexes=has_indexes)
                framed.add(key, index, value[size:])
        except UnframedError as error:
            framed.unframed[index] = str(error)
    return framed


def bare(values: Sequence[bytes]) -> Framed:
    """Return values that name no schema, as there is but one."""
    return Framed({None: [*range(len(values))]}, {None: list(values)})


def _by_few_frames(values: Sequence[bytes], *, has_indexes: bool) -> Framed | None:
    """Sort values out at once where few frames, all of the usual length, are all that they begin with."""
    size = _PREFIX_BYTES + has_indexes
    begins = [*map(itemgetter(slice(size)), values)]
    frames = {begin: number for number, begin in enumerate(dict.fromkeys(begins))}
    if len(frames) > _FEW_FRAMES or not all(_is_usual(frame, size, has_indexes) for frame in frames):
        return None
    bare_values = [*map(itemgetter(slice(size, None)), values)]
    if len(frames) == 1:
        at = {0: [*range(len(values))]}
        parts = {0: bare_values}
    else:
        numbers = np.fromiter(map(frames.__getitem__, begins), np.intp, len(begins))
        at = {number: np.flatnonzero(numbers == number).tolist() for number in frames.values()}
        parts = {number: [bare_values[index] for index in indices] for number, indices in at.items()}
    keys = {_by_number(frame, has_indexes=has_indexes)[0]: number for frame, number in frames.items()}
    return Framed(
        {key: at[number] for key, number in keys.items()},
        {key: parts[number] for key, number in keys.items()},
    )


def _is_usual(frame: bytes, size: int, has_indexes: bool) -> bool:
    is_whole = len(frame) == size and frame.startswith(_BY_NUMBER)
    return is_whole and (not has_indexes or frame.endswith(_FIRST_MESSAGE))


def _beginning(value: bytes, *, has_indexes: bool) -> bytes:
    """Return what may be its frame, and no more where it is one of the usual length: few are many's."""
    usual = value[: _PREFIX_BYTES + has_indexes]
    return usual if not has_indexes or usual.endswith(_FIRST_MESSAGE) else value[:_LONGEST_BYTES]


@lru_cache(_KEYS_KEPT)
def _by_number(begin: bytes, *, has_indexes: bool) -> tuple[SchemaKey, int]:
    """Return what a value that begins so names, and how long the frame is."""
    if len(begin) < _PREFIX_BYTES or not begin.startswith(_BY_NUMBER):
        raise UnframedError("names no schema: neither a zero byte and an id before it, nor a header")
    schema_id = SchemaId(int.from_bytes(begin[1:_PREFIX_BYTES]))
    if not has_indexes:
        return SchemaKey(schema_id), _PREFIX_BYTES
    indexes, size = _indexes(begin, _PREFIX_BYTES)
    return SchemaKey(schema_id, indexes), size


def _by_guid(header: bytes, *, has_indexes: bool) -> SchemaKey:
    if len(header) < _GUID_BYTES or not header.startswith(_BY_GUID):
        raise UnframedError(f"its header {VALUE_HEADER} is not a byte 1 and a GUID")
    indexes, size = _indexes(header, _GUID_BYTES) if has_indexes else ((), _GUID_BYTES)
    if size != len(header):
        raise UnframedError(f"its header {VALUE_HEADER} has more than it should")
    return SchemaKey(SchemaId(str(UUID(bytes=header[1:_GUID_BYTES]))), indexes)


def _indexes(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return which message a frame says, and where it ends."""
    count, at = _varint(data, at)
    if not 0 <= count <= _MOST_INDEXES:
        raise UnframedError(f"says {count} indexes of a message")
    indexes = []
    for _ in range(count):
        index, at = _varint(data, at)
        if index < 0:
            raise UnframedError(f"says an index of {index}")
        indexes.append(index)
    return tuple(indexes) or (0,), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for position, byte in enumerate(data[at : at + _VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * position
        if byte < 0x80:  # noqa: PLR2004
            return (value >> 1) ^ -(value & 1), at + position + 1
    raise UnframedError("ends in the indexes of a message")


def _header(headers: Headers) -> bytes | None:
    return next((value or b"" for name, value in headers or () if name == VALUE_HEADER), None)
