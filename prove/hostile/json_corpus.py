"""JSON values that reach each way through ``native/json.c``, with the columns that they are for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

CORPUS = Path(__file__).parents[2] / "native" / "corpus.txt"
ZONED, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")
POINT = pa.struct([("x", pa.int64()), ("at", ZONED), ("names", pa.list_(pa.string()))])
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int32()),
        ("ratio", pa.float64()),
        ("single", pa.float32()),
        ("ok", pa.bool_()),
        ("name", pa.string()),
        ("at", ZONED),
        ("local", LOCAL),
        ("day", pa.date32()),
        ("clock", pa.time64("us")),
        ("uid", pa.uuid()),
        ("price", pa.decimal128(9, 2)),
        ("large", pa.decimal128(38, 10)),
        ("raw", pa.binary()),
        ("four", pa.binary(4)),
        ("point", POINT),
        ("points", pa.list_(POINT)),
        ("matrix", pa.list_(pa.list_(pa.float64()))),
        ("by_key", pa.map_(pa.string(), pa.int64())),
        ("deep", pa.map_(pa.string(), POINT)),
        ("prices", pa.list_(pa.decimal128(9, 2))),
        ("naïve key", pa.string()),
        ("", pa.int64()),
        ("text", pa.large_string()),
        ("needs", pa.struct([pa.field("it", pa.int64(), nullable=False), ("not", pa.string())])),
        ("all", pa.list_(pa.field("element", pa.int64(), nullable=False))),
    ]
)


def corpus() -> Iterator[tuple[str, bytes]]:
    """Yield the reason for which a value is left, or ``row``, and the value, which is escaped in its line."""
    for line in CORPUS.read_text(encoding="ascii").splitlines():
        reason, _, text = line.partition(" ")
        yield reason, text.encode().decode("unicode_escape").encode("latin-1")
