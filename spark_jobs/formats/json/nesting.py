"""The two limits of JSON nesting.

Some ten thousand levels overflow the stack in Arrow's reader: the process dies. And Parquet's reader opens no
file with a column of more than a hundred levels, of which each list takes two.
"""

from __future__ import annotations

import numpy as np

MAX_NESTING = 50
# A value nests less deep than it is long, and the reader takes a thousand levels without harm.
SHORT_BYTES = 1000

_KEEP = b'"[]{}'
_DROP = bytes(byte for byte in range(256) if byte not in _KEEP)
_STEP = np.zeros(256, np.int8)
_STEP[[ord("["), ord("{")]] = 1
_STEP[[ord("]"), ord("}")]] = -1


def is_too_deep(value: bytes) -> bool:
    """True if a value's lists and objects nest deeper than ``MAX_NESTING``, even if it is not valid JSON."""
    if value.count(b"[") + value.count(b"{") <= MAX_NESTING:
        return False
    if b"\\" in value:
        value = value.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside_strings = b"".join(value.translate(None, _DROP).split(b'"')[::2])
    steps = _STEP[np.frombuffer(outside_strings, np.uint8)]
    return bool(steps.size) and int(np.cumsum(steps, dtype=np.int64).max()) > MAX_NESTING
