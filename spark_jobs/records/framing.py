"""Which schema a value, or a key, names: an id before it or in a header, as Confluent's serializers write.

Prefix: a zero byte, the id in four, then the value. Header ``__value_schema_id``: a byte 1, a GUID in
sixteen; the value is then bare, and what a header says wins (a key's is ``__key_schema_id``). In Protobuf
indexes follow the id, which of the schema's messages it is: how many, then each, as zigzag varints; a zero
alone is the first message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from uuid import UUID

import numpy as np

from spark_jobs.protocol.schema_id import SchemaId, SchemaKey

VALUE_HEADER, KEY_HEADER = "__value_schema_id", "__key_schema_id"
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


@dataclass(frozen=True, slots=True)
class Naming:
    """How values name their schemas: with indexes of a message, as keys of records do."""

    has_indexes: bool = False
    of_key: bool = False

    @property
    def header(self) -> str:
        """Return the header that may say it."""
        return KEY_HEADER if self.of_key else VALUE_HEADER


VALUES = Naming()


def unframe(values: Sequence[bytes], headers: Sequence[Headers], naming: Naming = VALUES) -> Framed:
    """Sort values, or keys, by the schema they name."""
    if not any(headers) and (framed := _by_few_frames(values, naming)) is not None:
        return framed
    framed = Framed()
    for index, (value, beside) in enumerate(zip(values, headers, strict=True)):
        try:
            if (header := _header(beside, naming.header)) is not None:
                framed.add(_by_guid(header, naming), index, value)
            else:
                key, size = _by_number(_beginning(value, naming), naming)
                framed.add(key, index, value[size:])
        except UnframedError as error:
            framed.unframed[index] = str(error)
    return framed


def bare(values: Sequence[bytes]) -> Framed:
    """Return values that name no schema, as there is but one."""
    return Framed({None: [*range(len(values))]}, {None: list(values)})


def _by_few_frames(values: Sequence[bytes], naming: Naming) -> Framed | None:
    """Sort values out at once where few frames, all of the usual length, are all that they begin with."""
    size = _PREFIX_BYTES + naming.has_indexes
    begins = [*map(itemgetter(slice(size)), values)]
    frames = {begin: number for number, begin in enumerate(dict.fromkeys(begins))}
    if len(frames) > _FEW_FRAMES or not all(_is_usual(frame, size, naming) for frame in frames):
        return None
    bare_values = [*map(itemgetter(slice(size, None)), values)]
    if len(frames) == 1:
        at = {0: [*range(len(values))]}
        parts = {0: bare_values}
    else:
        numbers = np.fromiter(map(frames.__getitem__, begins), np.intp, len(begins))
        at = {number: np.flatnonzero(numbers == number).tolist() for number in frames.values()}
        parts = {number: [bare_values[index] for index in indices] for number, indices in at.items()}
    keys = {_by_number(frame, naming)[0]: number for frame, number in frames.items()}
    return Framed(
        {key: at[number] for key, number in keys.items()},
        {key: parts[number] for key, number in keys.items()},
    )


def _is_usual(frame: bytes, size: int, naming: Naming) -> bool:
    is_whole = len(frame) == size and frame.startswith(_BY_NUMBER)
    return is_whole and (not naming.has_indexes or frame.endswith(_FIRST_MESSAGE))


def _beginning(value: bytes, naming: Naming) -> bytes:
    """Return what may be its frame, and no more where it is one of the usual length: few are many's."""
    usual = value[: _PREFIX_BYTES + naming.has_indexes]
    return usual if not naming.has_indexes or usual.endswith(_FIRST_MESSAGE) else value[:_LONGEST_BYTES]


@lru_cache(_KEYS_KEPT)
def _by_number(begin: bytes, naming: Naming) -> tuple[SchemaKey, int]:
    """Return what a value that begins so names, and how long the frame is."""
    if len(begin) < _PREFIX_BYTES or not begin.startswith(_BY_NUMBER):
        raise UnframedError("names no schema: neither a zero byte and an id before it, nor a header")
    schema_id = SchemaId(int.from_bytes(begin[1:_PREFIX_BYTES]))
    indexes, size = _indexes(begin, _PREFIX_BYTES) if naming.has_indexes else ((), _PREFIX_BYTES)
    return SchemaKey(schema_id, indexes, naming.of_key), size


def _by_guid(header: bytes, naming: Naming) -> SchemaKey:
    if len(header) < _GUID_BYTES or not header.startswith(_BY_GUID):
        raise UnframedError(f"its header {naming.header} is not a byte 1 and a GUID")
    indexes, size = _indexes(header, _GUID_BYTES) if naming.has_indexes else ((), _GUID_BYTES)
    if size != len(header):
        raise UnframedError(f"its header {naming.header} has more than it should")
    return SchemaKey(SchemaId(str(UUID(bytes=header[1:_GUID_BYTES]))), indexes, naming.of_key)


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


def _header(headers: Headers, wanted: str) -> bytes | None:
    return next((value or b"" for name, value in headers or () if name == wanted), None)
