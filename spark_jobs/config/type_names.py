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


def split_arguments(text: str) -> list[str]:
    """Split at commas that stand outside ``<…>``, ``(…)`` and ``[…]``."""
    parts = [""]
    depth = 0
    for character in text:
        depth += (character in "<([") - (character in ">)]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _check_decimal(text: str, precision: int, scale: int) -> None:
    if not 0 < precision <= _MAX_PRECISION or scale > precision:
        raise UnreadableValueError(
            f"{text!r} is out of range",
            f"A decimal has up to {_MAX_PRECISION} digits, scale at most precision.",
        )


def _check_nested(text: str, kind: str, arguments: list[str]) -> None:
    if kind == "struct":
        for argument in arguments:
            name, colon, type_name = argument.partition(":")
            if not colon or not name.strip():
                raise UnreadableValueError(
                    f"{text!r}: a struct field needs a name", "Write struct<name: type, …>."
                )
            check_type_name(type_name)
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
