"""One value as Python objects, nothing of it lost: numbers keep their literal, repeated keys are refused."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import orjson

from spark_jobs.formats.json.nesting import MAX_NESTING, is_too_deep

_MAX_INTEGER_DIGITS = 40
_EXAMPLE_CHARACTERS = 60
BLANKS = b" \t\n\r"


class FractionLiteral(str):
    """A number written with a fraction or an exponent, as it was written."""

    __slots__ = ()


class NearestLiteral(FractionLiteral):
    """What a column of floating point holds of a number that it may have rounded."""

    __slots__ = ()


class HugeIntegerLiteral(str):
    """An integer of more digits than any column takes, as it was written."""

    __slots__ = ()


class NotAnObjectError(ValueError):
    """A value that is no JSON object; ``field`` names the key it is about, when it is about one."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


def parse_object(value: bytes) -> dict[str, Any]:
    """Parse strictly; raises ``NotAnObjectError``."""
    parsed = parse_any(value)
    if type(parsed) is not dict:
        raise NotAnObjectError(f"not a JSON object but {json_kind(parsed)}")
    return parsed


def parse_any(value: bytes) -> Any:
    """Parse strictly what need be no object; raises ``NotAnObjectError`` where it is not JSON."""
    if not value.strip(BLANKS):
        raise NotAnObjectError("the value is empty")
    if is_too_deep(value):
        raise NotAnObjectError(f"it nests deeper than {MAX_NESTING} levels")
    try:
        parsed = _DECODER.decode(value.decode())
        if b"\\u" in value:
            json.dumps(parsed, ensure_ascii=False).encode()  # refuses halves of surrogate pairs
    except UnicodeDecodeError as error:
        raise NotAnObjectError(f"not UTF-8: {error.reason} at byte {error.start}") from error
    except UnicodeEncodeError as error:
        raise NotAnObjectError("not JSON: half of a surrogate pair") from error
    except NotAnObjectError:
        raise
    except ValueError as error:
        raise NotAnObjectError(f"not JSON: {error}") from error
    return parsed


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


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    parsed = dict(pairs)
    if len(parsed) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise NotAnObjectError(f"the key {shortened(key)!r} is there twice", key)
            seen.add(key)
    return parsed


def _integer(text: str) -> int | HugeIntegerLiteral:
    return int(text) if len(text) <= _MAX_INTEGER_DIGITS else HugeIntegerLiteral(text)


def _constant(text: str) -> NoReturn:
    raise NotAnObjectError(f"not JSON: {text}")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=FractionLiteral, parse_int=_integer, parse_constant=_constant
)
