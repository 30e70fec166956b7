"""Odd JSON in families, reproducible by seed.

Texts, not values: what matters is how a thing is written. Each family mixes what is right with what is not,
so that a bad record always has good neighbours.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

SEED = 20261121
RECORDS = 300  # of most families
MIB = 1024 * 1024
FIELDS = 2000

_BLANKS = ("", "", "", " ", "\n", "\r\n\t")
_SCALARS = ("null", "true", "false", "0", "-1", "2.5", '"text"', "[]", "{}", "[1]", '{"d":1}')
_BAD_NUMBERS = ("NaN", "Infinity", "-Infinity", "01", "+1", "1.", ".5", "0x1", "1_0", "--1", "1e", "१")
_INTEGERS = ("-0", "0", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "9" * 400)
_FRACTIONS = ("2.0", "1e400", "-1e400", "1e-400", "1E+2", "0e9999", "1e-999999999", "0.1", "4.9e-324", "-0.0")
_PIECES = (
    r"\u0000", r"\ud83d\ude00", r"\ud800", r"\udc00\ud800", r"\"", r"\\", r"\/", r"\b\f\n\r\t", r"\u2028",
    "}\\n{", "},{", r"\\\"", "'", "plain", "é", "😀",
)  # fmt: skip
_BAD_PIECES = (r"\x41", r"\u12", "\t", "\n", "\x00", "\\", '"', r"\U0001f600")
_ALPHABETS = (
    ("a", "z"), ("\u00c0", "\u024f"), ("\u0590", "\u06ff"), ("\u4e00", "\u4eff"),
    ("\U0001f300", "\U0001f5ff"), ("\u0300", "\u036f"), ("\u2000", "\u206f"),
)  # fmt: skip
_KEYS = (
    "naïve", "nai\u0308ve", "名前", "😀", "a.b", "a b", 'qu"ote', "back\\slash",
    "line\nbreak", "\u200b", "İ", "ß",
)  # fmt: skip
_SAME_NAMES = ("1h", "_1h", "a b", "a_x20b", "l.element", "s.element.b", "s.b", "plain", "k" * 256)
_MOMENTS = (
    "2024-01-01T00:00:00Z", "2024-06-30 23:59:60Z", "2024-01-01T00:00:00", "2024-01-01",
    "2024-02-30T00:00:00Z", "2024-01-01T00:00:00.1234567Z", "2024-01-01T24:00:00Z", "20240101T000000Z",
    "3000-01-01T00:00:00+05:30", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59-01:00", "", "٢٠٢٤-01-01T00:00:00Z",
)  # fmt: skip
_NOTHINGS = (
    b"null", b"", b" ", b"\n\n", b"[]", b"true", b"1", b'"text"', b"{", b"}", b"{}", b" {} ", b"[{}]",
    b"{null}", b"\xef\xbb\xbf{}", b"{}\x00", b"\x00", b"nul", b'{"n":null}', b'{"":1}', b'{"n":{}}',
    b'{"n":[]}', b"{]",
)  # fmt: skip
_BAD_BYTES = (b"\xff", b"\x80", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82")


@dataclass(frozen=True, slots=True)
class Family:
    """A family of odd JSON; ``make`` writes one record, or several related ones.

    ``columns`` are declared, ``number`` is how many records there are at least.
    """

    name: str
    title: str
    make: Callable[[random.Random], bytes | tuple[bytes, ...]]
    columns: Mapping[str, str] = field(default_factory=dict)
    number: int = RECORDS

    def records(self) -> list[bytes]:
        """Return its records, always the same."""
        rng = random.Random(f"{SEED} {self.name}")
        records: list[bytes] = []
        while len(records) < self.number:
            made = self.make(rng)
            records += (made,) if isinstance(made, bytes) else made
        return records


def _nesting(rng: random.Random) -> bytes:
    def obj(depth: int) -> str:
        fields = {"d": str(rng.randrange(100))}
        if depth:
            fields |= {
                "a": obj(depth - 1),
                "b": _array([obj(depth - 1) for _ in range(rng.randrange(3))]),
                "c": _array(
                    [_array([str(n) for n in range(rng.randrange(3))]) for _ in range(rng.randrange(3))]
                ),
            }
        if rng.random() < 0.03:
            fields[rng.choice("abcd")] = rng.choice(_SCALARS)
        return _object(rng, {name: fields[name] for name in fields if rng.random() < 0.8})

    def deep() -> str:
        opening, closing = rng.choice((("[", "]"), ('{"a":', "}")))
        depth = rng.choice((10, 40, 48, 49, 50, 51, 64, 500, 3000))
        return f'{{"deep":{opening * depth}1{closing * depth}}}'

    return (deep() if rng.random() < 0.1 else obj(3)).encode()


def _unicode(rng: random.Random) -> bytes:
    def text() -> str:
        first, last = rng.choice(_ALPHABETS)
        return "".join(chr(rng.randint(ord(first), ord(last))) for _ in range(rng.randrange(40)))

    names = rng.sample(_KEYS, 4)
    value = {name: text() for name in names} | ({rng.choice(names): 1} if rng.random() < 0.1 else {})
    if rng.random() < 0.05:
        value[rng.choice(("NAÏVE", "A.B", "ss", "i̇"))] = "another case"
    return json.dumps(value, ensure_ascii=rng.random() < 0.5).encode()


def _escapes(rng: random.Random) -> bytes:
    pieces = rng.choices(_PIECES, k=rng.randrange(8))
    if rng.random() < 0.2:
        pieces.insert(rng.randrange(len(pieces) + 1), rng.choice(_BAD_PIECES))
    key = r'"escap\u0065d"' if rng.random() < 0.3 else '"escaped"'
    return f'{{{key}:"{"".join(pieces)}","n":{rng.randrange(9)}}}'.encode("utf-8", "surrogatepass")


def _numbers(rng: random.Random) -> bytes:
    def whole() -> str:
        return rng.choice(
            (str(rng.randint(-(2**66), 2**66)), str(rng.randint(-99, 99)), rng.choice(_INTEGERS))
        )

    def broken() -> str:
        return rng.choice(
            (repr(rng.uniform(-1, 1) * 10 ** rng.randint(-320, 300)), rng.choice(_FRACTIONS), whole())
        )

    fields = {
        "whole": whole(),
        "broken": broken(),
        "series": _array([broken() for _ in range(rng.randrange(4))]),
    }
    if rng.random() < 0.1:
        fields[rng.choice(tuple(fields))] = rng.choice((*_BAD_NUMBERS, *_FRACTIONS, '"7"'))
    return _object(rng, fields).encode()


def _twice(rng: random.Random) -> bytes:
    pairs = [('"k"', str(rng.randrange(9))), ('"o"', f'{{"k":{rng.randrange(9)}}}')]
    again = rng.randrange(8)
    if again == 0:
        pairs.append((rng.choice(('"k"', r'"\u006b"')), rng.choice(("1", "null", '"x"'))))
    elif again == 1:
        pairs[1] = ('"o"', '{"k":1,"k":1}')
    elif again == 2:
        pairs.append(('"K"', rng.choice(("1", "null"))))
    rng.shuffle(pairs)
    return f"{{{','.join(f'{name}:{value}' for name, value in pairs)}}}".encode()


def _one_name(rng: random.Random) -> bytes:
    if rng.random() < 0.2:  # a first batch without a row is none
        return _plain(rng)
    names = rng.sample(_SAME_NAMES, 4)
    fields = {name: str(rng.randrange(9)) for name in names} | {"o": f'{{"{rng.choice(names)}":1}}'}
    if rng.random() < 0.5:
        fields |= {"l": "[1]", "s": '[{"b":1}]'}
    return _object(rng, fields).encode()


def _two_in_one(rng: random.Random) -> tuple[bytes, ...]:
    joints = (b"", b" ", b"\n", b",", b"\x00", b" x ", b"\n\n", b"}", b"{", b" //")
    one, two = _plain(rng), _plain(rng)
    if rng.random() < 0.7:
        return (one,)
    # What follows would make the count of objects right again.
    after = rng.choice(((), (b"",), (b" ",), (b"{}",)))
    return (one + rng.choice(joints) + two, *after)


def _halves(rng: random.Random) -> tuple[bytes, ...]:
    whole = _plain(rng)
    cut = rng.randrange(len(whole) + 1)
    kind = rng.randrange(4)
    return ((whole,), (whole[:cut],), (whole[cut:],), (whole[:cut], whole[cut:]))[kind]


def _nothings(rng: random.Random) -> tuple[bytes, ...]:
    # Arrow's reader once died of a block that begins with null.
    return b"null", *(rng.choice((*_NOTHINGS, *[_plain(rng)] * 20)) for _ in range(RECORDS))


def _bad_utf8(rng: random.Random) -> bytes:
    whole = json.dumps({"id_": rng.randrange(9), "word": "né😀e"}, ensure_ascii=rng.random() < 0.3).encode()
    if rng.random() < 0.6:
        return whole
    at = rng.randrange(len(whole) + 1)
    return whole[:at] + rng.choice(_BAD_BYTES) + whole[at + rng.randrange(2) :]


def _moments(rng: random.Random) -> bytes:
    day = f"{rng.randint(1, 9999):04}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    moment = f"{day}T0{rng.randrange(10)}:15Z"
    # Strings that are no time make a column of strings, unless it is declared.
    fields = {"moment": json.dumps(moment), "said": json.dumps(rng.choice((moment, *_MOMENTS)))}
    if rng.random() < 0.1:
        fields["moment"] = rng.choice(("null", "1", "true"))
    return _object(rng, fields).encode()


def _large(rng: random.Random) -> tuple[bytes, ...]:
    def text() -> str:
        piece = rng.choice(("x", "😀", r"\u0041", r"\n"))
        return f'"{piece * (rng.randint(MIB, 3 * MIB) // len(piece.encode()))}"'

    def series() -> str:
        return _array([str(n) for n in range(rng.randint(100_000, 300_000))])

    def record() -> bytes:
        if rng.random() < 0.3:
            return f'{{"series":{series()}}}'.encode()
        whole = f'{{"n":{rng.randrange(9)},"large":{text()}}}'.encode()
        return rng.choice((whole, whole, whole[:-1], whole[:-2] + b'\xff"}', whole + whole[:9]))

    return _plain(rng), record()


def _wide(rng: random.Random) -> bytes:
    kinds: tuple[Callable[[], str], ...] = (
        lambda: str(rng.randrange(1000)),
        lambda: repr(rng.random()),
        lambda: f'"{rng.randrange(1000)}"',
        lambda: rng.choice(("true", "false")),
    )

    wanted = FIELDS if rng.random() < 0.5 else 50
    fields = {f"f{n:04}": kinds[n % len(kinds)]() for n in sorted(rng.sample(range(FIELDS), wanted))}
    if rng.random() < 0.2:
        fields[rng.choice(tuple(fields))] = "[[]," + rng.choice(_SCALARS) + "]"
    return _object(rng, fields).encode()


def _plain(rng: random.Random) -> bytes:
    """Return an ordinary record, with arbitrary blanks."""
    return _object(
        rng, {"n": str(rng.randrange(1000)), "word": rng.choice(('"a"', '"}{"', '"\\n"', "null"))}
    ).encode()


def _object(rng: random.Random, fields: dict[str, str]) -> str:
    blank = rng.choice(_BLANKS)
    return f"{{{','.join(f'{blank}{json.dumps(name)}:{value}{blank}' for name, value in fields.items())}}}"


def _array(parts: Sequence[str]) -> str:
    return f"[{','.join(parts)}]"


FAMILIES = (
    Family("nesting", "objects and lists in each other, up to 3,000 deep", _nesting),
    Family("unicode", "keys and texts of many scripts", _unicode),
    Family("escapes", "escapes right and wrong, halves of surrogate pairs, braces in strings", _escapes),
    Family("numbers", "numbers huge, tiny and badly written", _numbers),
    Family("times", "times right and impossible", _moments, {"said": "timestamptz"}),
    Family("keys-twice", "keys that are there twice", _twice),
    Family("one-name", "keys that are one name, in files or in paths, and too long ones", _one_name),
    Family("two-in-one", "two objects in one value, an empty one after it", _two_in_one),
    Family("halves", "half objects, the other half in the next value", _halves),
    Family("null", "`null`, nothing, and what else is no object", _nothings),
    Family("bad-utf8", "bytes that are no UTF-8", _bad_utf8),
    Family("megabytes", "strings and lists of megabytes, on a topic that allows them", _large, number=40),
    Family("wide", "2,000 fields", _wide, number=120),
)
