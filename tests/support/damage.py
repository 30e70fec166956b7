"""Bytes that are not as they were written, for the tests that hold two readers of a format to one answer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

# Schemas that a test of a format looks at, each with a chunk of values; 6,500 are a million of these.
EXAMPLES = int(os.environ.get("SLUICE_EXAMPLES", "80"))
# Of a schema; with what becomes of them seven times as many, enough to be read side by side.
VALUES = 12
SEEDS = st.integers(0, (1 << 48) - 1)

# What a reader of JSON may stumble over.
HOSTILE_JSON = [
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b",",
        b":",
        b"\\",
        b"\\u",
        b"\0",
        b"\n",
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
    ),
    *(
        b"NaN",
        b"-",
        b"0",
        b"e999",
        b"9" * 30,
        b"null",
        b"}{",
        b'"id":1,',
        b'":"',
        b"/**/",
        b"[" * 60,
        b"[" * 1100,
        b"\xef\xbb\xbf",
    ),
]


def damaged(values: Sequence[bytes], chance: random.Random, hostile: Sequence[bytes]) -> list[bytes]:
    """Return each value cut, lengthened, spliced with its neighbour, bit-flipped, and two ways more.

    ``hostile`` are bytes that a reader of the format may stumble over.
    """
    made = []
    for index, value in enumerate(values):
        neighbour = values[index - 1]
        at, there = chance.randint(0, len(value)), chance.randint(0, len(neighbour))
        made += [
            value[:at],
            value + (chance.randbytes(chance.randint(1, 4)) if chance.random() < 0.5 else neighbour),
            value[:at] + neighbour[there:],
            _flipped(value, chance),
            value[:at] + value[at + chance.randint(1, 3) :],
            value[:at] + chance.choice(hostile) + value[at + chance.randint(0, 1) :],
        ]
    return made


def _flipped(value: bytes, chance: random.Random) -> bytes:
    flipped = bytearray(value or b"\0")
    flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
    return bytes(flipped)
