"""An independent implementation of canonical keys, used by ``audit`` only; see ``connect.keys``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any

from spark_jobs.formats.connect.documents import NotReadError
from spark_jobs.formats.connect.keys import Spelling
from spark_jobs.formats.json.plain import UNREADABLE, read_exactly

_FIRST_PLAIN, _LAST_PLAIN = -7, 39
_EXACT = Context(MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)


def plain_key(key: bytes, spelling: Spelling) -> str:
    """Return a key as canonical text. Raises one of ``UNREADABLE``."""
    try:
        value = read_exactly(key)
    except UNREADABLE:
        return key.decode()
    is_told = False
    if (
        type(value) is dict
        and value.keys() == {"schema", "payload"}
        and isinstance(value["schema"], dict | None)
    ):
        is_told, value = value["schema"] is not None, value["payload"]
    if type(value) is dict:
        names = spelling.order if {*spelling.order} == {*value} else [*value]
        return _object({name: value[name] for name in names})
    if spelling.are_texts and not is_told:
        return key.decode()
    if type(value) is str and (is_told or not value.startswith(("{", '"'))):
        return value
    is_number = isinstance(value, int | Decimal) and type(value) is not bool
    return key.decode().strip() if is_number and not is_told else _spelled(value)


def plain_object_key(key: bytes, spelling: Spelling) -> str:
    """Return an object key as canonical text. Raises one of ``UNREADABLE``."""
    if not (text := plain_key(key, spelling)).startswith("{"):
        raise NotReadError("no object")
    return text


def old_key(key: bytes, spelling: Spelling) -> str | None:
    """Return the previous key from a header, or None if there is none to read."""
    try:
        return plain_key(key, spelling)
    except UNREADABLE:
        return None


def _spelled(value: Any) -> str:
    match value:
        case dict():
            return _object({name: value[name] for name in sorted(value)})
        case list():
            return f"[{','.join(map(_spelled, value))}]"
        case str():
            return f'"{"".join(map(_character, value))}"'
        case bool() | None:
            return {True: "true", False: "false", None: "null"}[value]
    return _number(_EXACT.normalize(Decimal(value)))


def _object(value: Mapping[str, Any]) -> str:
    return f"{{{','.join(f'{_spelled(name)}:{_spelled(item)}' for name, item in value.items())}}}"


def _number(number: Decimal) -> str:
    if not number:
        return "0"
    # Of 40 zeros on, and of more than 6 behind the point, an exponent says how many.
    first, zeros = number.adjusted(), int(number.as_tuple().exponent)
    is_plain = first >= _FIRST_PLAIN and (zeros <= 0 or first <= _LAST_PLAIN)
    return f"{number:f}" if is_plain else f"{number:E}".replace("E+", "E")


def _character(character: str) -> str:
    written = json.dumps(character)[1:-1]
    if character >= " " and character not in '"\\' and not "\ud800" <= character <= "\udfff":
        return character
    return f"\\u{written[2:].upper()}" if written.startswith("\\u") else written
