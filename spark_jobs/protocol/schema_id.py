"""What names a schema in its registry. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from spark_jobs.protocol.json_codec import stored_as

_END_OF_NUMBERS = 1 << 32
_OF_KEY = "key/"
_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@stored_as(str, write=str, read=lambda text: SchemaId.parse(text))  # noqa: PLW0108  (is not there yet)
@dataclass(frozen=True, slots=True)
class SchemaId:
    """A number, as values begin with, or a GUID, as headers hold (``str(UUID(bytes=…))``).

    Numbers come first in order. Its text, also as JSON and as a key of JSON's maps, is ``7`` or the GUID.
    """

    value: int | str

    def __post_init__(self) -> None:
        value = self.value
        is_id = 0 <= value < _END_OF_NUMBERS if isinstance(value, int) else _GUID.fullmatch(value)
        if not is_id:
            raise ValueError(f"not a schema id: {value!r}")

    @classmethod
    def parse(cls, text: str) -> SchemaId:
        """Read ``str`` back; raises ``ValueError`` for any other text, another spelling of the same too."""
        found = cls(int(text) if text.isdecimal() else text)
        if str(found) != text:
            raise ValueError(f"not a schema id: {text!r}")
        return found

    def __lt__(self, other: SchemaId) -> bool:
        return self._place < other._place

    def __str__(self) -> str:
        return str(self.value)

    @property
    def _place(self) -> tuple[int, str]:
        return (self.value, "") if isinstance(self.value, int) else (_END_OF_NUMBERS, self.value)


@stored_as(str, write=str, read=lambda text: SchemaKey.parse(text))  # noqa: PLW0108  (is not there yet)
@dataclass(frozen=True, slots=True)
class SchemaKey:
    """What a value, or a record's key, names as its schema.

    An id, and in Protobuf which message of it, by index at each level. Its text is that of the id, with
    indexes ``7:0.1``, of a record's key ``key/7``. Those of values come first in order.
    """

    schema_id: SchemaId
    indexes: tuple[int, ...] = ()
    of_key: bool = False

    @classmethod
    def parse(cls, text: str) -> SchemaKey:
        """Read ``str`` back; raises ``ValueError`` for any other text."""
        name, _, indexes = text.removeprefix(_OF_KEY).partition(":")
        numbers = tuple(map(int, indexes.split("."))) if indexes else ()
        found = cls(SchemaId.parse(name), numbers, of_key=text.startswith(_OF_KEY))
        if str(found) != text:
            raise ValueError(f"not a schema and a message in it: {text!r}")
        return found

    def __lt__(self, other: SchemaKey) -> bool:
        return (self.of_key, self.schema_id, self.indexes) < (other.of_key, other.schema_id, other.indexes)

    def __str__(self) -> str:
        indexes = ".".join(map(str, self.indexes))
        whose = _OF_KEY if self.of_key else ""
        return f"{whose}{self.schema_id}:{indexes}" if indexes else f"{whose}{self.schema_id}"
