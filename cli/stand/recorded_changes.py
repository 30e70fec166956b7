"""Recorded change events of a database table, for ``demo --cdc``.

PostgreSQL 18 and Debezium 3.6.3, recorded by ``prove.lab.debezium_recording``: rows that are changed, deleted
and inserted again, changed keys, omitted values, a connector that was killed and repeated its last events, an
incremental snapshot, an altered column, and finally a truncated table.
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
    """Return the records by connector and table, and the database's rows at given end offsets."""
    read: dict[str, Any] = json.loads(gzip.decompress(RECORDING.read_bytes()))
    return read


def changes() -> Iterator[SampleRecord]:
    """Yield the topic's records up to the moment, in the order of each partition."""
    ends = recording()["moments"][MOMENT]["ends"][_CONNECTOR]
    for partition, offset, key, value, headers in recording()["records"][_TABLE]:
        if offset < ends[str(partition)]:
            encoded = tuple((name, text.encode()) for name, text in headers)
            yield SampleRecord(partition, _bytes(key), _bytes(value), encoded)


def rows_held() -> dict[int, str]:
    """Return the names in the database's rows at the moment, by key."""
    return {row[0]: row[1] for row in recording()["moments"][MOMENT]["rows"]}


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
