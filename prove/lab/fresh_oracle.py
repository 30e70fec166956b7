"""Verifies answers with Kafka's records against the topic: records below the watermark, each once.

Records carry numbers. One statement asks for fingerprints of rows and dead letters beside the watermark; a
plain consumer, which shares nothing with Sluice, reads the topic up to where that says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from spark_jobs.hot.fresh import read_fresh
from spark_jobs.hot.watermark import Watermark
from spark_jobs.query.query import query

if TYPE_CHECKING:
    from prove.lab.pipeline_lab import Lab
    from spark_jobs.hot.prefix import Prefix

    Pin = Callable[..., Prefix]
    Ask = Callable[..., list[dict[str, Any]]]

_PATIENCE_SECONDS = 60.0  # a broker may just be starting again
_AWAY = {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT}  # noqa: SLF001  (librdkafka's own)
_SUMS = (
    "count(*) AS n, sum(_kafka_offset)::BIGINT AS o, sum(_kafka_offset * (_kafka_offset + 7))::BIGINT AS oo"
)
_KEYS = "_kafka_partition AS partition, _kafka_generation AS generation"
_ROWS = f"SELECT {_KEYS}, {_SUMS}, sum(id)::BIGINT AS ids FROM orders GROUP BY ALL"  # noqa: S608
_LETTERS = f"SELECT {_KEYS}, {_SUMS} FROM dead_letters GROUP BY ALL"  # noqa: S608
_ASKED = f"""
SELECT w.*, r.n AS rows, r.o, r.oo, r.ids, l.n AS letters, l.o AS lo, l.oo AS loo
FROM sluice_watermark AS w
LEFT JOIN ({_ROWS}) AS r USING (partition, generation)
LEFT JOIN ({_LETTERS}) AS l USING (partition, generation)
"""  # noqa: S608


@dataclass
class _Sums:
    """The sums in a fingerprint."""

    count: int = 0
    offsets: int = 0
    weighted: int = 0
    ids: int = 0

    def add(self, offset: int, number: int = 0) -> None:
        self.count += 1
        self.offsets += offset
        self.weighted += offset * (offset + 7)
        self.ids += number


@dataclass(frozen=True, slots=True)
class _Seen:
    """A record; ``number`` is an order's id, or None."""

    offset: int
    number: int | None
    is_tombstone: bool


class TopicCopy:
    """A plain consumer's copy of a topic, which survives deletion or replacement of the topic."""

    def __init__(self) -> None:
        self._read: dict[tuple[int, int], tuple[int, list[_Seen]]] = {}

    def records(self, lab: Lab, generation: int, partition: int, start: int, end: int) -> list[_Seen]:
        """Return the readable records in ``[start, end)``."""
        until, found = self._read.get((generation, partition), (start, []))
        if until < end:
            read = list(_read(lab, partition, until, end))
            found += (_Seen(offset, _number(value), value is None) for offset, value in read)
            self._read[generation, partition] = end, found
        return [each for each in found if start <= each.offset < end]


def ask(lab: Lab, sql: str, *, pin: Pin | None = None, **how: Any) -> list[dict[str, Any]]:
    """Query with Kafka's newest records: read now, or pinned by a follower."""
    with lab.connections() as connections:
        prefix = pin(**how) if pin else read_fresh(lab.pipeline, connections, **how)
        with query(lab.pipeline, connections, sql, prefix=prefix) as answer:
            return [row for batch in answer.batches for row in batch.to_pylist()]


def checked(
    lab: Lab, *, copy: TopicCopy | None = None, is_json: bool = True, by: Ask | None = None, **how: Any
) -> Watermark:
    """Query once with ``ask`` or ``by``, compare with the topic, and return the answer's records.

    With ``is_json`` also which of them are rows, and their ids: those whose values are orders.
    """
    answer = by(_ASKED, **how) if by else ask(lab, _ASKED, **how)
    assert answer, "an answer without a watermark"
    copy = copy or TopicCopy()
    for row in answer:
        span = row["generation"], row["partition"], row["start_offset"], row["end_offset"]
        rows, letters = _Sums(), _Sums()
        for each in copy.records(lab, *span):
            if not each.is_tombstone:
                (letters if each.number is None else rows).add(each.offset, each.number or 0)
        told = f"partition {row['partition']} up to {row['end_offset']}, seam {row['seam_offset']}"
        seen = _Sums(*(row[name] or 0 for name in ("rows", "o", "oo", "ids")))
        in_letters = _Sums(*(row[name] or 0 for name in ("letters", "lo", "loo")))
        if is_json:
            assert (seen, in_letters) == (rows, letters), f"{told}: {seen}, {in_letters}; {rows}, {letters}"
        else:
            assert _both(seen, in_letters) == _both(rows, letters), told
    ends = {row["partition"]: row["end_offset"] for row in answer}
    return Watermark(answer[0]["generation"], answer[0]["rollbacks"], ends)


def _both(one: _Sums, other: _Sums) -> tuple[int, int, int]:
    return one.count + other.count, one.offsets + other.offsets, one.weighted + other.weighted


def hot_rows(lab: Lab, **how: Any) -> int:
    """Return the number of an answer's rows that are not in the lake yet."""
    (row,) = ask(lab, "SELECT sum(hot_rows)::BIGINT AS n FROM sluice_watermark", **how)
    return int(row["n"])


def _number(value: bytes | None) -> int | None:
    try:
        record = json.loads(value or b"")
    except ValueError:
        return None
    number = record.get("id") if isinstance(record, Mapping) else None
    return number if isinstance(number, int) else None


def _read(lab: Lab, partition: int, start: int, end: int) -> Iterator[tuple[int, bytes | None]]:
    """Return the readable records of ``[start, end)``."""
    consumer = Consumer(
        {
            "bootstrap.servers": lab.config.kafka["bootstrap.servers"],
            "group.id": "oracle",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(lab.pipeline.topic, partition, start)])
        while start < end:
            message = consumer.poll(_PATIENCE_SECONDS)
            assert message is not None, f"the topic says nothing at {partition}:{start}"
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  (librdkafka's own)
                    return
                assert error.retriable() or error.code() in _AWAY, error
                continue
            offset = message.offset()
            assert offset is not None
            if offset < end:
                yield offset, message.value()
            start = offset + 1
    finally:
        consumer.close()
