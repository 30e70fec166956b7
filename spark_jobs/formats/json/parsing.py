"""One value as Python objects, nothing of it lost: numbers keep their literal, repeated keys are refused."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from spark_jobs.formats.json.nesting import MAX_NESTING, is_too_deep
from spark_jobs.values.literals import FractionLiteral, HugeIntegerLiteral, json_kind, shortened

_MAX_INTEGER_DIGITS = 40
BLANKS = b" \t\n\r"


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
