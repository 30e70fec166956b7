"""Split JSON documents without changing them: each name's value and its position. Pure.

A document may have its schema before it, thousands of bytes that are the same in every one: that is read
once, and known again by its bytes.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

_BLANKS = " \t\n\r"
# A schema changes with its table: of more than these the oldest is read again.
_MOST_BEGINNINGS = 16


class NotReadError(ValueError):
    """A document of an unexpected form; ``field`` names the part, None for the whole document."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class KeyNotReadError(NotReadError):
    """A key of an unexpected form."""


class BareValueError(NotReadError):
    """A document that is JSON but not an object; ``schema`` is the schema around it, or None."""

    def __init__(self, text: str, schema: str | None) -> None:
        super().__init__("not a JSON object")
        self.text = text
        self.schema = schema


class Member(NamedTuple):
    """A value and its position in the document's text."""

    value: Any
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    """An object's members, the text that contains them, and the schema's text or None."""

    text: str
    start: int
    end: int
    members: dict[str, Member]
    schema: str | None = None

    @property
    def whole(self) -> str:
        """The object's original text."""
        return self.text[self.start : self.end]

    @property
    def names(self) -> Collection[str]:
        """The members' names."""
        return self.members

    def value_of(self, name: str) -> Any:
        """Return the value under a name, or None if it is absent."""
        return self.members[name].value if name in self.members else None

    def text_of(self, name: str) -> bytes:
        """Return the original text of the value under a name."""
        member = self.members[name]
        return self.text[member.start : member.end].encode()


class Documents:
    """Reads documents one by one; a repeated schema is parsed once."""

    def __init__(self) -> None:
        self._beginnings: dict[bytes, str] = {}

    def read(self, document: bytes) -> Document:
        """Return a document, or the payload of one with a schema. Raises ``NotReadError``."""
        try:
            for beginning, schema in self._beginnings.items():
                if document.startswith(beginning):
                    return _payload(document[len(beginning) :].decode(), 0, schema)
            return self._parse(document.decode())
        except NotReadError:
            raise
        except UnicodeDecodeError as error:
            raise NotReadError(f"not UTF-8: {error.reason} at byte {error.start}") from error
        except ValueError as error:
            raise NotReadError(f"not JSON: {error}") from error
        except RecursionError as error:
            raise NotReadError("it nests too deep") from error

    def _parse(self, text: str) -> Document:
        start = _after_blanks(text, 0)
        if text[start : start + 1] != "{":
            raise _bare(text, start, None, "")
        members, end = _members(text, start)
        if text[end:].strip(_BLANKS):
            raise NotReadError("not JSON: more after its end")
        if members.keys() != {"schema", "payload"} or type(members["schema"].value) not in {dict, type(None)}:
            return Document(text, start, end, members)
        schema, payload = members["schema"], members["payload"]
        is_last = payload.start > schema.start
        written = None if schema.value is None else text[schema.start : schema.end]
        if is_last and written is not None:
            # Whatever begins so has this schema: up to the payload nothing is left open.
            while len(self._beginnings) >= _MOST_BEGINNINGS:
                del self._beginnings[next(iter(self._beginnings))]
            self._beginnings[text[: payload.start].encode()] = written
        return _payload(text, payload.start, written, is_last=is_last)


def _payload(text: str, start: int, schema: str | None, *, is_last: bool = True) -> Document:
    if text[start : start + 1] != "{":
        raise _bare(text, start, schema, "}" if is_last else None)
    members, end = _members(text, start)
    if is_last and text[end:].strip(_BLANKS) != "}":
        raise NotReadError("not JSON: more after its payload")
    return Document(text, start, end, members, schema)


def _bare(text: str, start: int, schema: str | None, behind: str | None) -> NotReadError:
    """Return a description of a value that is not an object; ``behind`` is what may follow it."""
    try:
        _, end = _JSON.raw_decode(text, start)
    except ValueError:
        return NotReadError("not a JSON object")
    is_all = behind is None or text[end:].strip(_BLANKS) == behind
    return BareValueError(text[start:end], schema) if is_all else NotReadError("not a JSON object")


def _members(text: str, start: int) -> tuple[dict[str, Member], int]:
    """Return the members of the object that begins there, and its end."""
    found: dict[str, Member] = {}
    at = _after_blanks(text, start + 1)
    if text[at : at + 1] == "}":
        return found, at + 1
    while True:
        if text[at : at + 1] != '"':
            raise NotReadError("not JSON: a name is missing")
        name, at = _JSON.raw_decode(text, at)
        at = _after_blanks(text, at)
        if text[at : at + 1] != ":":
            raise NotReadError("not JSON: a colon is missing")
        begins = _after_blanks(text, at + 1)
        value, at = _JSON.raw_decode(text, begins)
        if name in found:
            raise NotReadError("it is there twice", name)
        found[name] = Member(value, begins, at)
        at = _after_blanks(text, at)
        if text[at : at + 1] == "}":
            return found, at + 1
        if text[at : at + 1] != ",":
            raise NotReadError("not JSON: neither more nor an end")
        at = _after_blanks(text, at + 1)


def _after_blanks(text: str, at: int) -> int:
    while text[at : at + 1] in _BLANKS and at < len(text):
        at += 1
    return at


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object's members; raises ``ValueError`` if a name is repeated."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name is there twice")
    return members


def refuse(text: str) -> NoReturn:
    """Raise ``NotReadError`` for a constant that Python's parser accepts and JSON does not have."""
    raise NotReadError(f"not JSON: {text}")


_JSON = json.JSONDecoder(parse_constant=refuse)
