"""A record's key as canonical text: equal keys have equal text, however they are written. Pure.

Without blanks, names in the order of the table's key, numbers the shortest, as few escapes as there can be:
as Kafka Connect's JSON converter writes them, but for doubles.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from spark_jobs.formats.connect.documents import (
    BareValueError,
    Documents,
    KeyNotReadError,
    NotReadError,
    refuse,
    unique_names,
)

# What nearly all keys hold, in its one spelling already: patterns that Arrow's RE2 knows too.
NAME = r'"[^"\\\x00-\x1f]*"'
ITEM = rf"(?:{NAME}|0|-?[1-9][0-9]{{0,17}}|true|false|null)"
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_ESCAPED = re.compile(r'["\\\x00-\x1f\ud800-\udfff]')
_FIRST_PLAIN, _LAST_PLAIN = -7, 39
_EXACT = Context(MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)
# As programs write numbers: digits around a point, or one digit and an exponent that a double has.
_PRINTED = re.compile(r"-?(?:[0-9]+\.[0-9]+(?:[eE][-+]?[0-9]{1,3})?|[0-9][eE][-+]?[0-9]{1,3}|0)")


@dataclass(frozen=True, slots=True)
class Key:
    """A key; ``fields`` is its JSON object, or None if the key is text."""

    text: str
    fields: bytes | None = None
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class Spelling:
    """The canonical form of keys; ``order`` is the order of their names, where the table has one.

    ``are_texts``: somebody said so of keys that are no objects. With ``is_compared`` one that may be a number
    or a text is refused, since nobody knows which keys it is equal to.
    """

    order: tuple[str, ...] = ()
    are_texts: bool = False
    is_compared: bool = False

    def read(self, documents: Documents, key: bytes) -> Key:
        """Return a key. Raises ``KeyNotReadError``."""
        try:
            document = documents.read(key)
        except BareValueError as bare:
            return Key(self._bare(key, bare))
        except NotReadError:
            return Key(_decoded(key))
        text = self.of(document.whole)
        return Key(text, text.encode(), document.schema)

    def of(self, text: str) -> str:
        """Return the canonical text of an object key. Raises ``KeyNotReadError``."""
        return text if _spelled(self.order).fullmatch(text) else _canonical_text(_parsed(text), self.order)

    def _bare(self, key: bytes, bare: BareValueError) -> str:
        if bare.schema is None and self.are_texts:
            return _decoded(key)
        value = _parsed(bare.text)
        if type(value) is str and (bare.schema is not None or value[:1] not in '{"'):
            return value
        shortest = _canonical_text(value)
        if bare.schema is not None or type(value) is not Decimal or shortest == bare.text:
            return shortest
        if self.is_compared and _PRINTED.fullmatch(bare.text):
            raise KeyNotReadError(
                f"the key {bare.text} may be the number {shortest} or a text: write `key: {{format: string}}`"
                " where keys are texts, or have them sent with their schemas"
            )
        return bare.text


def _decoded(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise KeyNotReadError("the key is not UTF-8") from error


AS_WRITTEN = Spelling()  # in no table's order


@lru_cache
def _spelled(order: tuple[str, ...]) -> re.Pattern[str]:
    fields = ",".join(rf"{re.escape(_quoted(name))}:{ITEM}" for name in order)
    return re.compile(rf"\{{{fields or f'{NAME}:{ITEM}(?:,{NAME}:{ITEM})*'}\}}")


def _parsed(text: str) -> Any:
    try:
        return _JSON.decode(text)
    except (ValueError, RecursionError, InvalidOperation) as error:
        raise KeyNotReadError(f"the key: {error}") from error


def _canonical_text(value: Any, order: Sequence[str] | None = None) -> str:
    """Return a value's canonical text; names keep the ``order`` of the whole key."""
    match value:
        case dict():
            is_of_order = order is not None and {*order} == {*value}
            names = order if is_of_order and order else sorted(value) if order is None else value
            return f"{{{','.join(f'{_quoted(name)}:{_canonical_text(value[name])}' for name in names)}}}"
        case list():
            return f"[{','.join(map(_canonical_text, value))}]"
        case str():
            return _quoted(value)
        case Decimal():
            return _number(value)
    return json.dumps(value)


def _quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escaped, text)}"'


def _escaped(found: re.Match[str]) -> str:
    return _SHORT.get(found[0]) or f"\\u{ord(found[0]):04X}"


def _number(number: Decimal) -> str:
    if not number:
        return "0"
    number = number.normalize(_EXACT)
    # Of 40 zeros on, and of more than 6 behind the point, an exponent says how many.
    first, zeros = number.adjusted(), int(number.as_tuple().exponent)
    is_plain = first >= _FIRST_PLAIN and (zeros <= 0 or first <= _LAST_PLAIN)
    return f"{number:f}" if is_plain else f"{number:E}".replace("E+", "E")


_JSON = json.JSONDecoder(
    parse_int=Decimal, parse_float=Decimal, parse_constant=refuse, object_pairs_hook=unique_names
)
