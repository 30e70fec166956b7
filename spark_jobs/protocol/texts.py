"""Values as text: frozen dataclasses as JSON and back, and numbers for people. Pure.

Reading JSON is strict on purpose: text that parses and is something else must not be believed. A field that
this version does not know is passed over; one with a default may be missing, since an earlier version did not
write it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Generic, TypeVar

from pydantic import GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic_core import core_schema

# Numbers as people read them, the same wherever they are told.


def count(number: int, one: str, many: str | None = None) -> str:
    """Return ``1 record``, ``2 records``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def records_wait(number: int) -> str:
    """Return ``1 record waits``, ``2 records wait``."""
    return count(number, "record waits", "records wait")


def seconds(milliseconds: float) -> str:
    """Return milliseconds for people: ``340 ms``, ``4.2 s``, ``3 min 20 s``."""
    if milliseconds < 1000:  # noqa: PLR2004  (a second)
        return f"{milliseconds:.0f} ms"
    whole = milliseconds / 1000
    return f"{whole:.1f} s" if whole < 60 else f"{int(whole // 60)} min {int(whole % 60)} s"  # noqa: PLR2004


def rate(number: int, milliseconds: float) -> str:
    """Return ``412,000 a second``."""
    return f"{number / max(milliseconds, 1) * 1000:,.0f} a second"


def when(microseconds: int | None) -> str | None:
    """Return microseconds since the epoch as an ISO time in UTC, to the second."""
    if microseconds is None:
        return None
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# Frozen dataclasses as JSON text and back, every field checked against its declared type.
#
# Reading is strict on purpose: text that parses as JSON and is something else must not be believed. A field
# that this version does not know is passed over; one with a default may be missing, since an earlier version
# did not write it.


_T = TypeVar("_T")


def stored_as(
    kind: Any, *, write: Callable[[_T], object], read: Callable[[Any], _T]
) -> Callable[[type[_T]], type[_T]]:
    """Store a class as the JSON of ``kind``; ``write`` converts a value to it, ``read`` converts it back."""

    def schema(_source: object, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(write)
        return core_schema.no_info_after_validator_function(read, handler(kind), serialization=written)

    def give(cls: type[_T]) -> type[_T]:
        cls.__get_pydantic_core_schema__ = staticmethod(schema)  # type: ignore[attr-defined]  # pydantic's hook
        return cls

    return give


class JsonCodec(Generic[_T]):
    """The JSON of one type; built when it is first used, since most processes use few of them."""

    def __init__(self, kind: type[_T]) -> None:
        self._kind = kind

    @cached_property
    def _adapter(self) -> TypeAdapter[_T]:
        return TypeAdapter(self._kind)

    def to_json(self, value: _T) -> str:
        """Return the value as one line of JSON, its fields in the order they are declared."""
        return self._adapter.dump_json(value).decode()

    def to_plain(self, value: _T) -> Any:
        """Return the value as maps, lists and scalars."""
        return self._adapter.dump_python(value)

    def from_json(self, text: str) -> _T:
        """Read ``to_json`` back; raises ``ValueError`` naming each field that does not fit."""
        try:
            return self._adapter.validate_json(text, strict=True)
        except ValidationError as error:
            findings = error.errors(include_url=False, include_context=False, include_input=False)
            places = (f"{'.'.join(map(str, found['loc']))}: {found['msg']}" for found in findings)
            raise ValueError("; ".join(places)) from error
