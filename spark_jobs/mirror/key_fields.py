"""Of which fields the keys of rows are: those of JSON objects, none of what is a text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.debezium.keys import ITEM

if TYPE_CHECKING:
    from collections.abc import Sequence

_PLAIN_TEXT = r"^[^{\s]"


def fields_of(key: str) -> tuple[str, ...]:
    """Return the names of the fields of a key; none of a key that is a text."""
    try:
        read = orjson.loads(key)
    except orjson.JSONDecodeError:
        return ()
    return tuple(read) if type(read) is dict else ()


def first_of_others(keys: pa.ChunkedArray, fields: Sequence[str]) -> int | None:
    """Return which key is the first that is not of these fields in this order, None where all are.

    By a pattern: to parse each took half a microsecond, seven times as long.
    """
    named = (re.escape(orjson.dumps(name).decode()) for name in fields)
    pattern = rf"^\{{{','.join(f'{name}:{ITEM}' for name in named)}\}}$" if fields else _PLAIN_TEXT
    in_doubt = pc.invert(pc.match_substring_regex(keys, pattern)).to_numpy()
    others = (at for at in np.flatnonzero(in_doubt).tolist() if fields_of(keys[at].as_py()) != tuple(fields))
    return next(others, None)
