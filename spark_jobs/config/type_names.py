"""Iceberg type names as declared in ``columns``: checked here, given to the table as they are. Pure."""

from __future__ import annotations

import re

from spark_jobs.config.problems import UnreadableValueError, closest, did_you_mean

PRIMITIVES = (
    "boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "string", "uuid",
    "binary",
)  # fmt: skip
_OTHER_NAMES = {
    "bool": "boolean", "integer": "int", "int32": "int", "bigint": "long", "int64": "long", "real": "float",
    "float32": "float", "float64": "double", "number": "double", "datetime": "timestamp",
    "timestamp_ntz": "timestamp",
    "timestamp_tz": "timestamptz", "timestamp_ltz": "timestamptz", "varchar": "string", "text": "string",
    "str": "string", "bytes": "binary", "array": "list<…>", "object": "struct<name: type, …>",
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\s*\[\s*[1-9]\d*\s*\]")
_NESTED = re.compile(r"(list|map|struct)\s*<(.*)>", re.DOTALL)
_MAX_PRECISION = 38
_QUOTE = "`"
_QUOTED = re.compile(r"`((?:[^`]|``)+)`", re.DOTALL)
_PLAIN = re.compile(r"[^\s,:<>()\[\]`]+( +[^\s,:<>()\[\]`]+)*")
_HINT = f"One of {', '.join(PRIMITIVES)}, decimal(p, s), fixed[n], list<…>, map<…, …>, struct<name: type>."


def check_type_name(text: str) -> None:
    """Return when ``text`` is a type of an Iceberg v2 table; raises ``UnreadableValueError`` otherwise."""
    name = text.strip()
    if name in PRIMITIVES or _FIXED.fullmatch(name):
        return
    if decimal := _DECIMAL.fullmatch(name):
        _check_decimal(text, int(decimal[1]), int(decimal[2]))
    elif nested := _NESTED.fullmatch(name):
        _check_nested(text, nested[1], split_arguments(nested[2]))
    else:
        raise UnreadableValueError(f"{text!r} is not an Iceberg type", _suggest(name))


def split_arguments(text: str, at: str = ",", most: int = -1) -> list[str]:
    """Split at every (or the first ``most``) ``at`` outside ``<…>``, ``(…)``, ``[…]`` and backticks."""
    parts = [""]
    depth = 0
    is_quoted = False
    for character in text:
        is_quoted ^= character == _QUOTE
        depth += 0 if is_quoted else (character in "<([") - (character in ">)]")
        if character == at and depth == 0 and not is_quoted and len(parts) != most + 1:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def split_field(text: str) -> tuple[str, str] | None:
    """Return the name, as it is meant, and the type of ``name: type``; None when there is no name or type."""
    name, *rest = split_arguments(text, ":", 1)
    if not rest:
        return None
    if quoted := _QUOTED.fullmatch(name):
        name = quoted[1].replace(_QUOTE * 2, _QUOTE)
    elif _QUOTE in name:
        return None
    return (name, rest[0]) if name else None


def field_text(name: str, type_name: str) -> str:
    """Return ``name: type`` as ``split_field`` reads it; names with signs of types stand in backticks."""
    if _PLAIN.fullmatch(name):
        return f"{name}: {type_name}"
    return f"{_QUOTE}{name.replace(_QUOTE, _QUOTE * 2)}{_QUOTE}: {type_name}"


def _check_decimal(text: str, precision: int, scale: int) -> None:
    if not 0 < precision <= _MAX_PRECISION or scale > precision:
        raise UnreadableValueError(
            f"{text!r} is out of range",
            f"A decimal has up to {_MAX_PRECISION} digits, scale at most precision.",
        )


def _check_nested(text: str, kind: str, arguments: list[str]) -> None:
    if kind == "struct":
        for argument in arguments:
            if (field := split_field(argument)) is None:
                raise UnreadableValueError(
                    f"{text!r}: a struct field needs a name",
                    "Write struct<name: type, …>; a name with any of ,:<>()[] stands in backticks.",
                )
            check_type_name(field[1])
        return
    if len(arguments) != (1 if kind == "list" else 2):
        raise UnreadableValueError(
            f"{text!r}: wrong number of types", "Write list<type> or map<key type, value type>."
        )
    for argument in arguments:
        check_type_name(argument)


def _suggest(name: str) -> str:
    lower = name.lower()
    return did_you_mean(_OTHER_NAMES.get(lower) or closest(lower, PRIMITIVES), _HINT)
