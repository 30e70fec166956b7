"""Parsed JSON of which nothing is lost: numbers as they were written, and what is shown of a value."""

from __future__ import annotations

import orjson

_EXAMPLE_CHARACTERS = 60


class FractionLiteral(str):
    """A number written with a fraction or an exponent, as it was written."""

    __slots__ = ()


class NearestLiteral(FractionLiteral):
    """What a column of floating point holds of a number that it may have rounded."""

    __slots__ = ()


class HugeIntegerLiteral(str):
    """An integer of more digits than any column takes, as it was written."""

    __slots__ = ()


def json_text(value: object) -> str:
    """Return a parsed value as JSON: no blanks, its fields in their order, numbers as they were written."""
    if isinstance(value, dict):
        return f"{{{','.join(f'{json_text(name)}:{json_text(each)}' for name, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(json_text, value))}]"
    if isinstance(value, FractionLiteral | HugeIntegerLiteral):
        return str(value)
    return str(value) if type(value) is int else orjson.dumps(value).decode()


def json_kind(value: object) -> str:
    """Return what a parsed value is, for messages."""
    if value is None:
        return "null"
    for kind, name in _KIND_NAMES:
        if isinstance(value, kind):
            return name
    raise TypeError(type(value).__name__)


_KIND_NAMES = (
    (bool, "a boolean"), (int, "an integer"), (HugeIntegerLiteral, "an integer past 64 bits"),
    (FractionLiteral, "a number with a fraction or exponent"), (str, "a string"), (dict, "an object"),
    (list, "an array"),
)  # fmt: skip


def shortened(text: str, characters: int = _EXAMPLE_CHARACTERS) -> str:
    """Return what of a record's text is shown to people."""
    return text if len(text) <= characters else text[: characters - 1] + "…"


def says_something(value: object) -> bool:
    """True if any value but null is in it: nulls, empty lists and empty objects say nothing."""
    if isinstance(value, dict):
        return any(map(says_something, value.values()))
    if isinstance(value, list):
        return any(map(says_something, value))
    return value is not None
