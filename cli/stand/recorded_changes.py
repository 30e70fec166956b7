"""Changes of a database's table as a real Debezium told them: `demo --cdc` has no database of its own.

PostgreSQL 18 and Debezium 3.6.3, recorded by ``prove.lab.debezium_recording``: rows that change, go and come
again, keys that change, values that are not told, a connector that was killed and told its last changes once
more, an incremental snapshot, a column altered, and in the end the table emptied.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from cli.stand.sample_data import SampleRecord

RECORDING = Path(__file__).with_name("debezium-3.6.3.json.gz")
TOPIC = "shop.public.customers"
PARTITIONS = 3
_TABLE, _CONNECTOR = "shop.customers", "shop"
# Before the last moment, at which the table is emptied.
MOMENT = -2


@cache
def recording() -> dict[str, Any]:
    """Return the records by connector and table, and what the database held at which ends of its topics."""
    read: dict[str, Any] = json.loads(gzip.decompress(RECORDING.read_bytes()))
    return read


def changes() -> Iterator[SampleRecord]:
    """Yield what the topic held at the moment, in the order of each partition."""
    ends = recording()["moments"][MOMENT]["ends"][_CONNECTOR]
    for partition, offset, key, value, headers in recording()["records"][_TABLE]:
        if offset < ends[str(partition)]:
            told = tuple((name, text.encode()) for name, text in headers)
            yield SampleRecord(partition, _bytes(key), _bytes(value), told)


def rows_held() -> dict[int, str]:
    """Return the names that the database's rows had at the moment, by key."""
    return {row[0]: row[1] for row in recording()["moments"][MOMENT]["rows"]}


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
