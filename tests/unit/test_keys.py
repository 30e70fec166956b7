"""A record's key is one text, whatever JSON it is written in."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.formats.connect.documents import Documents, KeyNotReadError
from spark_jobs.formats.connect.keys import Spelling
from spark_jobs.formats.connect.plain_keys import plain_key

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(
    ["é", "\x1f", "\x7f", '"', "\\u00e9", "/", "\ud83d", "𝄞"]
)
_NUMBERS = st.integers() | st.decimals(allow_nan=False, allow_infinity=False).map(Decimal)
_ITEMS = st.recursive(
    _NUMBERS | _TEXTS | st.booleans() | st.none(),
    lambda item: st.lists(item, max_size=2) | st.dictionaries(_TEXTS, item, max_size=2),
    max_leaves=4,
)
_OBJECTS = st.dictionaries(_TEXTS, _ITEMS, min_size=1, max_size=3)


def _number(number: Decimal, draw: Any) -> str:
    zeros, shift = draw(st.integers(0, 3)), draw(st.integers(-3, 3))
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)) + "0" * zeros
    exponent -= zeros
    if draw(st.booleans()) and -30 < exponent <= 0:
        padded = text.rjust(1 - exponent, "0")
        whole, fraction = padded[: len(padded) + exponent], padded[len(padded) + exponent :]
        text = f"{int(whole)}.{fraction}" if fraction else str(int(whole))
    else:
        whole, fraction = (text[:1], text[1:]) if shift > 0 and len(text) > 1 else (text, "")
        text = f"{int(whole)}{fraction and f'.{fraction}'}" + draw(st.sampled_from("eE"))
        text += f"{exponent + len(fraction):+}" if draw(st.booleans()) else str(exponent + len(fraction))
    return "-" * sign + text


def _text(text: str, draw: Any) -> str:
    return json.dumps(text, ensure_ascii=draw(st.booleans()) or bool(re.search("[\ud800-\udfff]", text)))


@st.composite
def _spellings(draw: Any, value: Any, *, is_key: bool = False) -> str:
    def blank() -> str:
        return draw(st.sampled_from(["", "", " ", "\n\t"]))

    match value:
        case dict():
            names = draw(st.permutations([*value])) if not is_key else [*value]
            parts = [
                f"{blank()}{_text(name, draw)}{blank()}:{blank()}{draw(_spellings(value[name]))}{blank()}"
                for name in names
            ]
            return f"{{{','.join(parts)}}}"
        case list():
            return f"[{','.join(blank() + draw(_spellings(each)) for each in value)}]"
        case str():
            return _text(value, draw)
        case bool() | None:
            return json.dumps(value)
    return _number(Decimal(value), draw)


def _spelled(text: str, *order: str) -> str:
    spelling = Spelling(order)
    key = spelling.read(Documents(), text.encode()).text
    assert plain_key(text.encode(), spelling) == key
    return key


@given(_OBJECTS, st.data())
def test_all_spellings_of_a_key_are_one_text(value: dict[str, Any], data: Any) -> None:
    """Blanks, escapes and digits of whatever is in it; the text is JSON of the same value."""
    one, other = (data.draw(_spellings(value, is_key=True)) for _ in range(2))
    key = _spelled(one)
    assert _spelled(other) == _spelled(key) == key
    assert json.loads(key, parse_float=Decimal, parse_int=Decimal) == json.loads(
        one, parse_float=Decimal, parse_int=Decimal
    )


@given(_OBJECTS, st.data())
def test_names_in_another_order_are_the_same_key(value: dict[str, Any], data: Any) -> None:
    """They come in the order that the table's key has."""
    order = data.draw(st.permutations([*value]))
    written = {name: value[name] for name in data.draw(st.permutations([*value]))}
    key = _spelled(data.draw(_spellings(written, is_key=True)), *order)
    assert [*json.loads(key)] == order
    assert key == _spelled(data.draw(_spellings(value, is_key=True)), *order)


@given(_OBJECTS, _OBJECTS, st.data())
def test_keys_of_two_values_are_two_texts(one: dict[str, Any], other: dict[str, Any], data: Any) -> None:
    """However they are written, true and 1 or a number and its text among them."""
    written = [data.draw(_spellings(each, is_key=True)) for each in (one, other)]
    values = [json.loads(each, parse_float=_exact, parse_int=_exact) for each in written]
    assert (_spelled(written[0]) == _spelled(written[1], *one)) == (values[0] == values[1])


def _exact(text: str) -> str:
    return f"number {Decimal(text).normalize()!r}" if Decimal(text) else "number 0"


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ('{"id":1}', '{"id":1}'),
        ('{ "id" : 1.0 }', '{"id":1}'),
        ('{"id":1e0}', '{"id":1}'),
        ('{"id":-0.0}', '{"id":0}'),
        ('{"id":12E2}', '{"id":1200}'),
        ('{"id":1.50}', '{"id":1.5}'),
        ('{"id":1e-7}', '{"id":0.0000001}'),
        ('{"id":1e-8}', '{"id":1E-8}'),
        ('{"id":1e40}', '{"id":1E40}'),
        ('{"id":"\\u00e9\\u001f\\/"}', '{"id":"é\\u001F/"}'),
        ('{"id":"1.0"}', '{"id":"1.0"}'),
        ('{"id":{"$oid":"a","b":[1.0]}}', '{"id":{"$oid":"a","b":[1]}}'),
        ('{"schema":{"type":"struct"},"payload":{"id": 1.0}}', '{"id":1}'),
        ('{"payload":{"id": 1.0},"schema":null}', '{"id":1}'),
        ('{"payload":"k","schema":{"type":"string"}}', "k"),
        ('{"schema":{"type":"string"},"payload":"1.0"}', "1.0"),
        ('{"schema":{"type":"double"},"payload":1.0}', "1"),
        ('"k"', "k"),
        ('"\\u00e9"', "é"),
        ('"{"', '"{"'),
        ("k", "k"),
        (" k ", " k "),
        ("1", "1"),
        ("12345e67", "12345e67"),
        ("01", "01"),
        ("Struct{id=1}", "Struct{id=1}"),
        ('{"id":1', '{"id":1'),
    ],
)
def test_a_key_is_spelled_so(written: str, key: str) -> None:
    """What Kafka Connect's converter writes of integers and texts stays as it is."""
    assert _spelled(written) == key


def test_a_number_that_may_be_a_text_is_refused_where_keys_are_compared() -> None:
    """Unless somebody says that keys are texts: then such a key is what is written."""
    for written in ("1.0", "1.10", "1e0", "-0", "2.5E3"):
        with pytest.raises(KeyNotReadError, match="may be the number"):
            Spelling(is_compared=True).read(Documents(), written.encode())
        assert Spelling(are_texts=True, is_compared=True).read(Documents(), written.encode()).text == written
    assert Spelling(are_texts=True).read(Documents(), b'"k"').text == '"k"'
    assert plain_key(b'"k"', Spelling(are_texts=True)) == '"k"'
