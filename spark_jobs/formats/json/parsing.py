"""Lossless parsing of one value: numbers keep their literal, repeated keys are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NoReturn

from spark_jobs.formats.json.nesting import MAX_NESTING, is_too_deep
from spark_jobs.schema.inference import FieldType, ListOf, MapOf, StructOf
from spark_jobs.schema.writer_schema import UnreadableValueError
from spark_jobs.values.literals import (
    FractionLiteral,
    HugeIntegerLiteral,
    json_kind,
    says_something,
    shortened,
)

_MAX_INTEGER_DIGITS = 40
BLANKS = b" \t\n\r"


def parse_object(value: bytes) -> dict[str, Any]:
    """Parse strictly; raises ``UnreadableValueError``."""
    parsed = parse_any(value)
    if type(parsed) is not dict:
        raise UnreadableValueError(f"not a JSON object but {json_kind(parsed)}")
    return parsed


def parse_any(value: bytes) -> Any:
    """Parse any JSON value strictly; raises ``UnreadableValueError`` if it is not JSON."""
    if not value.strip(BLANKS):
        raise UnreadableValueError("the value is empty")
    if is_too_deep(value):
        raise UnreadableValueError(f"it nests deeper than {MAX_NESTING} levels")
    try:
        parsed = _DECODER.decode(value.decode())
        if b"\\u" in value:
            json.dumps(parsed, ensure_ascii=False).encode()  # refuses halves of surrogate pairs
    except UnicodeDecodeError as error:
        raise UnreadableValueError(f"not UTF-8: {error.reason} at byte {error.start}") from error
    except UnicodeEncodeError as error:
        raise UnreadableValueError("not JSON: half of a surrogate pair") from error
    except UnreadableValueError:
        raise
    except ValueError as error:
        raise UnreadableValueError(f"not JSON: {error}") from error
    return parsed


def ignored_in(value: Any, kind: FieldType, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the dotted names of non-empty values without a column, in a value that fits its own."""
    if value is None:
        return
    if isinstance(kind, ListOf):
        for item in value:
            yield from ignored_in(item, kind.element, (*path, "element"))
    elif isinstance(kind, MapOf):
        for item in value.values():
            yield from ignored_in(item, kind.value, (*path, "value"))
    elif isinstance(kind, StructOf):
        known = {field.name: field.type for field in kind.fields}
        for name, item in value.items():
            if name in known:
                yield from ignored_in(item, known[name], (*path, name))
            elif says_something(item):
                yield ".".join((*path, name))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    parsed = dict(pairs)
    if len(parsed) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise UnreadableValueError(f"the key {shortened(key)!r} is there twice", key)
            seen.add(key)
    return parsed


def _integer(text: str) -> int | HugeIntegerLiteral:
    return int(text) if len(text) <= _MAX_INTEGER_DIGITS else HugeIntegerLiteral(text)


def _constant(text: str) -> NoReturn:
    raise UnreadableValueError(f"not JSON: {text}")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=FractionLiteral, parse_int=_integer, parse_constant=_constant
)
