"""Which schema a value names: an id before it, or in a header, as Confluent's serializers write it.

Prefix: a zero byte, the id in four, then the value. Header ``__value_schema_id``: a byte 1, a GUID in
sixteen; the value is then bare, and what a header says wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from spark_jobs.protocol.schema_id import SchemaId, SchemaKey

VALUE_HEADER = "__value_schema_id"
_PREFIX_BYTES = 5
_BY_NUMBER, _BY_GUID = b"\x00", b"\x01"
_GUID_BYTES = 17


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


def unframe(values: Sequence[bytes], headers: Sequence[Headers]) -> Framed:
    """Sort values by the schema they name."""
    if not any(headers) and (prefix := _one_prefix(values)) is not None:
        key = _by_number(prefix)
        return Framed({key: [*range(len(values))]}, {key: [value[_PREFIX_BYTES:] for value in values]})
    framed = Framed()
    keys: dict[bytes, SchemaKey] = {}
    for index, (value, beside) in enumerate(zip(values, headers, strict=True)):
        try:
            if (header := _header(beside)) is not None:
                framed.add(_by_guid(header), index, value)
            else:
                prefix = value[:_PREFIX_BYTES]
                key = keys.get(prefix) or keys.setdefault(prefix, _by_number(prefix))
                framed.add(key, index, value[_PREFIX_BYTES:])
        except UnframedError as error:
            framed.unframed[index] = str(error)
    return framed


def bare(values: Sequence[bytes]) -> Framed:
    """Return values that name no schema, as there is but one."""
    return Framed({None: [*range(len(values))]}, {None: list(values)})


def _one_prefix(values: Sequence[bytes]) -> bytes | None:
    """Return what all values begin with, None where they differ or one is no frame."""
    prefixes = {value[:_PREFIX_BYTES] for value in values}
    if len(prefixes) != 1:
        return None
    (prefix,) = prefixes
    return prefix if len(prefix) == _PREFIX_BYTES and prefix.startswith(_BY_NUMBER) else None


def _by_number(prefix: bytes) -> SchemaKey:
    if len(prefix) < _PREFIX_BYTES or not prefix.startswith(_BY_NUMBER):
        raise UnframedError("names no schema: neither a zero byte and an id before it, nor a header")
    return SchemaKey(SchemaId(int.from_bytes(prefix[1:])))


def _by_guid(header: bytes) -> SchemaKey:
    if len(header) != _GUID_BYTES or not header.startswith(_BY_GUID):
        raise UnframedError(f"its header {VALUE_HEADER} is not a byte 1 and a GUID")
    return SchemaKey(SchemaId(str(UUID(bytes=header[1:]))))


def _header(headers: Headers) -> bytes | None:
    return next((value or b"" for name, value in headers or () if name == VALUE_HEADER), None)
