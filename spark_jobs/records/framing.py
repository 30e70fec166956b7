"""Schema id of a value or key: before its bytes or in a header, as Confluent's serializers write it.

Prefix: a zero byte, the id in four, then the value. Header ``__value_schema_id``: a byte 1, a GUID in
sixteen; the value is then bare, and what a header says wins (a key's is ``__key_schema_id``). In Protobuf
indexes follow the id, which of the schema's messages it is: how many, then each, as zigzag varints; a zero
alone is the first message. Frames of other registries are in ``frames.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np
import pyarrow as pa

from spark_jobs.config.value_format import Framing
from spark_jobs.formats.lanes.packed_values import PackedValues, words_at
from spark_jobs.protocol.offsets import SchemaId, SchemaKey, Spans
from spark_jobs.records.frames import FRAMES, UnframedError, header_of, read_frames

if TYPE_CHECKING:
    from spark_jobs.records.decoder import Encoded, Headers


VALUE_HEADER, KEY_HEADER = "__value_schema_id", "__key_schema_id"
_PREFIX_BYTES = 5
_BY_NUMBER, _BY_GUID = b"\x00", b"\x01"
_GUID_BYTES = 17
_FIRST_BYTE, _ID = np.uint64(0xFF), np.uint64(0xFFFFFFFF)
_ONE, _LONG_INDEX = 2, 0x80  # as they are written
_UNUSUAL = np.uint64((1 << 64) - 1)  # which no frame is: they begin with a zero
_MOST_INDEXES, _VARINT_BYTES = 32, 5
_LONGEST_BYTES = _PREFIX_BYTES + _VARINT_BYTES * (_MOST_INDEXES + 1)
_KEYS_KEPT = 1024


@dataclass(slots=True)
class Framed:
    """Values by schema: indices and unframed bytes; ``unframed`` holds the reasons of the others by index."""

    indices: dict[SchemaKey | None, np.ndarray] = field(default_factory=dict)
    values: dict[SchemaKey | None, PackedValues] = field(default_factory=dict)
    unframed: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Naming:
    """The way in which values name their schemas, with message indexes and for keys or values."""

    has_indexes: bool = False
    of_key: bool = False
    framing: Framing = Framing.CONFLUENT

    @property
    def header(self) -> str:
        """Return the header that may contain the id."""
        return KEY_HEADER if self.of_key else VALUE_HEADER


VALUES = Naming()


def unframe(values: Sequence[bytes], headers: Sequence[Headers], naming: Naming = VALUES) -> Framed:
    """Group values or keys by the schema that they name."""
    if naming.framing in FRAMES:
        found, why = read_frames(naming.framing, values, headers, "key" if naming.of_key else "value")
        by_key = {SchemaKey(each, of_key=naming.of_key): parts for each, parts in found.items()}
        return Framed(
            {key: np.array(indices) for key, (indices, _) in by_key.items()},
            {key: PackedValues.of(bare_values) for key, (_, bare_values) in by_key.items()},
            why,
        )
    packed = PackedValues.of(values)
    usual, sizes = _usual_frames(packed, headers, naming)
    encoded = pa.array(usual).dictionary_encode()
    keys: dict[SchemaKey, int] = {}
    unframed: dict[int, str] = {}
    numbers = [
        -1
        if frame == _UNUSUAL
        else keys.setdefault(_by_number(frame.to_bytes(8, "little"), naming)[0], len(keys))
        for frame in encoded.dictionary.to_pylist()
    ]
    which = np.array(numbers, np.int32)[encoded.indices.to_numpy()]
    for index in np.flatnonzero(usual == _UNUSUAL).tolist():
        try:
            key, sizes[index] = _named(packed[index], headers[index], naming)
        except UnframedError as error:
            unframed[index] = str(error)
        else:
            which[index] = keys.setdefault(key, len(keys))
    bare_values = PackedValues(packed.data, packed.starts + sizes, packed.ends)
    if len(keys) == 1 and not unframed:
        (only,) = keys
        return Framed({only: np.arange(len(packed))}, {only: bare_values})
    at = _positions(which, len(keys))
    return Framed(
        {key: at[number] for key, number in keys.items()},
        {key: bare_values.take(at[number]) for key, number in keys.items()},
        unframed,
    )


def bare(values: Sequence[bytes]) -> Framed:
    """Return values that name no schema, because there is only one."""
    return Framed({None: np.arange(len(values))}, {None: PackedValues.of(values)})


def _usual_frames(
    packed: PackedValues, headers: Sequence[Headers], naming: Naming
) -> tuple[np.ndarray, np.ndarray]:
    """Return each value's frame as a number if it has a usual length, and that length.

    Usual is the file's first message, or one index below 64.
    """
    begins = words_at(packed.data, packed.starts)
    sizes = np.full(len(packed), _PREFIX_BYTES)
    is_usual = begins & _FIRST_BYTE == 0
    if naming.has_indexes:
        count, index = begins >> np.uint64(40) & _FIRST_BYTE, begins >> np.uint64(48) & _FIRST_BYTE
        is_usual &= (count == 0) | ((count == _ONE) & (index < _LONG_INDEX) & (index % 2 == 0))
        sizes += 1 + (count == _ONE)
    if any(headers):
        is_bare = (not each or header_of(each, naming.header) is None for each in headers)
        is_usual &= np.fromiter(is_bare, bool, len(headers))
    is_usual &= (packed.ends - packed.starts >= sizes) & (begins >> np.uint64(8) & _ID != 0)
    frames = begins & ((np.uint64(1) << (8 * sizes).astype(np.uint64)) - np.uint64(1))
    return np.where(is_usual, frames, _UNUSUAL), sizes


def _positions(which: np.ndarray, count: int) -> list[np.ndarray]:
    """Return the positions of each number below ``count``."""
    # Few bits are sorted in one go.
    order = np.argsort(which.astype(np.min_scalar_type(-count - 1)), kind="stable")
    ends = np.cumsum(np.bincount(which + 1, minlength=count + 1))
    return np.split(order, ends[:-1])[1:]


def _named(value: bytes, headers: Headers, naming: Naming) -> tuple[SchemaKey, int]:
    """Return the schema that a value names, and the frame's length."""
    if (header := header_of(headers, naming.header)) is not None:
        return _by_guid(header, naming), 0
    return _by_number(value[: _LONGEST_BYTES if naming.has_indexes else _PREFIX_BYTES], naming)


@lru_cache(_KEYS_KEPT)
def _by_number(begin: bytes, naming: Naming) -> tuple[SchemaKey, int]:
    """Return the schema that such a frame names, and its length."""
    if len(begin) < _PREFIX_BYTES or not begin.startswith(_BY_NUMBER):
        raise UnframedError("names no schema: neither a zero byte and an id before it, nor a header")
    if not (number := int.from_bytes(begin[1:_PREFIX_BYTES])):
        raise UnframedError(
            "names schema 0: Apicurio's own serializers write ids of 8 bytes (`framing: apicurio`)"
        )
    schema_id = SchemaId(number)
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
    """Return the message that a frame names, and the frame's end."""
    count, at = _varint(data, at)
    if not 0 <= count <= _MOST_INDEXES:
        raise UnframedError(f"has {count} message indexes")
    indexes = []
    for _ in range(count):
        index, at = _varint(data, at)
        if index < 0:
            raise UnframedError(f"has a message index of {index}")
        indexes.append(index)
    return tuple(indexes) or (0,), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for position, byte in enumerate(data[at : at + _VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * position
        if byte < 0x80:  # noqa: PLR2004
            return (value >> 1) ^ -(value & 1), at + position + 1
    raise UnframedError("ends in the indexes of a message")


# Which schema reads a record that does not name its own: that of the span it stands in.


def by_place(encoded: Encoded, spans: Spans) -> Framed:
    """Group values or keys by the schema of the span that their offset is in; they have no frame."""
    packed = PackedValues.of(encoded.items)
    which = spans_at(encoded.partitions, encoded.offsets, spans)
    numbers: dict[SchemaKey, int] = {}
    of_span = np.array([numbers.setdefault(span.key, len(numbers)) for span in spans], np.intp)
    found = Framed()
    for key, number in numbers.items():
        indices = np.flatnonzero(of_span[which] == number)
        if len(indices):
            found.indices[key] = indices
            found.values[key] = packed if len(indices) == len(packed) else packed.take(indices)
    return found


def spans_at(partitions: np.ndarray, offsets: np.ndarray, spans: Spans) -> np.ndarray:
    """Return the number of the span that each offset is in; the first if none has begun."""
    found = np.zeros(len(offsets), np.intp)
    for partition in np.unique(partitions).tolist():
        begun = [number for number, span in enumerate(spans) if partition in span.starts]
        starts = [spans[number].starts[partition] for number in begun]
        here = partitions == partition
        found[here] = np.array([0, *begun], np.intp)[np.searchsorted(starts, offsets[here], "right")]
    return found
