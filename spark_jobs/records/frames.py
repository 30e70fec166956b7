"""Frames of registries other than Confluent's, a function each: the schema that a value names, and the rest.

Apicurio's serializers write a zero byte and an id of eight bytes, or headers: ``apicurio.value.contentId`` or
``.globalId`` (keys: ``apicurio.key.…``). The value is bare then, and what a header says wins.
Glue's write a byte 3, one that is 0 or 5, and a UUID in sixteen; after 5 the value is packed by zlib.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING
from uuid import UUID

from spark_jobs.config.value_format import Framing
from spark_jobs.protocol.offsets import SchemaId

if TYPE_CHECKING:
    from spark_jobs.records.decoder import Headers

_APICURIO_BYTES = 9
_GLUE_BYTES, _GLUE_BEGINS = 18, (b"\3\0", b"\3\5")
# What one value may unpack to: a chunk of them is in memory at once, and zlib could make 1,000 times as much.
_UNPACKED_BYTES, _MOST_TIMES = 1 << 16, 100
_END_OF_IDS = 1 << 63
_IDS_KEPT = 1024


class UnframedError(ValueError):
    """A value that names no schema."""


def header_of(headers: Headers, wanted: str) -> bytes | None:
    """Return the first header of this name."""
    return next((value or b"" for name, value in headers or () if name == wanted), None)


def _of_apicurio(prefix: str, value: bytes, headers: Headers, whose: str) -> tuple[SchemaId, bytes]:
    ours = f"apicurio.{whose}."
    if headers:
        named = {name.removeprefix(ours): each for name, each in headers if name.startswith(ours)}
        if named.get("encoding") == b"JSON":
            raise UnframedError(f"is Avro as JSON by its header {ours}encoding: only binary Avro is read")
        for header, kind in (("contentId", ""), ("globalId", "global-")):
            if header in named:
                return _id(kind, named[header] or b""), value
    if len(value) < _APICURIO_BYTES or value[0]:
        wanted = "neither a zero byte and an id of eight bytes before it, nor a header"
        raise UnframedError(f"names no schema: {wanted} {ours}contentId or {ours}globalId")
    return _id(prefix, value[1:_APICURIO_BYTES]), value[_APICURIO_BYTES:]


@lru_cache(_IDS_KEPT)
def _id(kind: str, written: bytes) -> SchemaId:
    number = int.from_bytes(written)
    if len(written) != _APICURIO_BYTES - 1 or not 0 < number < _END_OF_IDS:
        raise UnframedError(f"names schema {number}, which is no id of eight bytes from 1 on")
    return SchemaId(f"{kind}{number}" if kind else number)


def _of_glue(value: bytes, _headers: Headers, _whose: str) -> tuple[SchemaId, bytes]:
    if len(value) < _GLUE_BYTES or value[:2] not in _GLUE_BEGINS:
        raise UnframedError("names no schema: neither 3 and 0 nor 3 and 5 and a UUID before it")
    bare = value[_GLUE_BYTES:]
    return _uuid(value[2:_GLUE_BYTES]), bare if value[1] == 0 else _unpacked(bare)


@lru_cache(_IDS_KEPT)
def _uuid(written: bytes) -> SchemaId:
    return SchemaId(str(UUID(bytes=written)))


def _unpacked(packed: bytes) -> bytes:
    most = max(_UNPACKED_BYTES, _MOST_TIMES * len(packed))
    unpacking = zlib.decompressobj()
    try:
        value = unpacking.decompress(packed, most + 1)
    except zlib.error as error:
        raise UnframedError(f"is not packed by zlib, as its second byte says ({error})") from error
    if len(value) > most:
        raise UnframedError(f"unpacks to more than {_MOST_TIMES} times its size, and than 64 KiB")
    if not unpacking.eof or unpacking.unused_data:
        raise UnframedError("is packed by zlib and cut short, or followed by more")
    return value


Frame = Callable[[bytes, "Headers", str], tuple[SchemaId, bytes]]
FRAMES: dict[Framing, Frame] = {
    Framing.APICURIO: partial(_of_apicurio, ""),
    Framing.APICURIO_GLOBAL: partial(_of_apicurio, "global-"),
    Framing.GLUE: _of_glue,
}


def read_frames(
    framing: Framing, values: Sequence[bytes], headers: Sequence[Headers], whose: str
) -> tuple[dict[SchemaId, tuple[list[int], list[bytes]]], dict[int, str]]:
    """Return the indices and bare values of each schema, and by index why the others name none."""
    frame = FRAMES[framing]
    found: dict[SchemaId, tuple[list[int], list[bytes]]] = {}
    unframed: dict[int, str] = {}
    for index, (value, beside) in enumerate(zip(values, headers, strict=True)):
        try:
            schema_id, bare = frame(value, beside, whose)
        except UnframedError as error:
            unframed[index] = str(error)
            continue
        indices, rest = found.setdefault(schema_id, ([], []))
        indices.append(index)
        rest.append(bare)
    return found, unframed
