"""Estimates when Kafka may delete a record that waits, from what clients can know. Pure.

Kafka deletes whole segments: by time when the newest record of one is older than ``retention.ms``, by size
when the partition without it still has ``retention.bytes``. Clients cannot see where segments begin or end,
so both limits are applied to the waiting record itself. This gives the earliest possible time: the real one
is later by up to a segment and the broker's own interval, never sooner. A person who deletes records or
lowers a limit cannot be foreseen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retention:
    """A topic's retention: milliseconds of a record, bytes of a partition; None is without limit."""

    keeps_ms: int | None
    keeps_bytes: int | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """The records that wait in a partition.

    ``first_at_ms`` is the time of the record at the table's next offset; None when it has none or was not
    read.
    """

    partition: int
    records: int
    first_at_ms: int | None


def retention_of(topic_config: Mapping[str, str]) -> Retention:
    """Return the retention in a topic's settings; none with compaction alone (``cleanup.policy=compact``)."""
    if "delete" not in topic_config.get("cleanup.policy", "delete"):
        return Retention(None, None)
    return Retention(_limit(topic_config.get("retention.ms")), _limit(topic_config.get("retention.bytes")))


def headroom_ms(
    retention: Retention, waiting: Iterable[Waiting], *, bytes_per_record: int, now_ms: int
) -> int | None:
    """Return the milliseconds until Kafka may delete the first waiting record; None if none is at risk.

    ``bytes_per_record`` is the uncompressed size of a record, so with compressing producers the limit by size
    is reached later than estimated.
    """
    left = [
        ms
        for one in waiting
        for ms in (_by_time(retention, one, now_ms), _by_size(retention, one, bytes_per_record, now_ms))
        if ms is not None
    ]
    return max(0, min(left)) if left else None


def _by_time(retention: Retention, waiting: Waiting, now_ms: int) -> int | None:
    if retention.keeps_ms is None or waiting.first_at_ms is None:
        return None
    return waiting.first_at_ms + retention.keeps_ms - now_ms


def _by_size(retention: Retention, waiting: Waiting, bytes_per_record: int, now_ms: int) -> int | None:
    """Return the time until the limit by size, at the rate of arrivals since the first waiting record."""
    if retention.keeps_bytes is None:
        return None
    waiting_bytes = waiting.records * bytes_per_record
    left_bytes = retention.keeps_bytes - waiting_bytes
    if left_bytes <= 0:
        return 0
    if waiting.first_at_ms is None or waiting.first_at_ms >= now_ms or not waiting_bytes:
        return None
    return left_bytes * (now_ms - waiting.first_at_ms) // waiting_bytes


def _limit(text: str | None) -> int | None:
    number = int(text) if text is not None else -1
    return None if number < 0 else number
