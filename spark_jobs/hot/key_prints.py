"""Four bytes of each record key, so that a key is looked for in these and not in all the keys' texts.

They are made of a key's last eight bytes: keys that are counted differ there. A key has one print, and others
may have it too: whoever finds it looks at the key itself.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_WORD_BYTES = 8
# Odd, and its bits look like chance: the upper ones of a product differ.
_SPREAD = 0x9E3779B97F4A7C15


def prints_of(keys: pa.Array) -> np.ndarray:
    """Return one of each key, which is text, bytes or null."""
    if pa.types.is_dictionary(keys.type):
        which = keys.indices.fill_null(0).to_numpy()
        return prints_of(keys.dictionary)[which] if len(keys.dictionary) else np.zeros(len(keys), np.uint32)
    _, offsets, text = keys.cast(pa.binary()).buffers()
    if not len(keys) or text is None:
        return np.zeros(len(keys), np.uint32)
    bounds = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    first, last = bounds[[0, -1]]
    padded = np.zeros(_WORD_BYTES + last - first, np.uint8)  # so that eight bytes end at each key's end
    padded[_WORD_BYTES:] = np.frombuffer(text, np.uint8)[first:last]
    words = np.ndarray(last - first + 1, "<u8", padded.data, strides=(1,))[bounds[1:] - first]
    others = (_WORD_BYTES - np.minimum(np.diff(bounds), _WORD_BYTES)).astype(np.uint64) * np.uint64(8)
    # What lies before a short key is another's; all eight bytes do where it is empty.
    own = np.where(others < 64, words >> np.minimum(others, np.uint64(63)), np.uint64(0))  # noqa: PLR2004  (bits)
    return (own * np.uint64(_SPREAD) >> np.uint64(32)).astype(np.uint32)


def print_of(key: str | bytes) -> np.uint32:
    """Return the key's."""
    own = (key.encode() if isinstance(key, str) else key)[-_WORD_BYTES:]
    return np.uint32(int.from_bytes(own, "little") * _SPREAD >> 32 & 0xFFFFFFFF)
