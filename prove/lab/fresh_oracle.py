"""An answer with Kafka in it, against the topic itself: the records below its watermark, each once.

Records carry numbers. One statement asks for fingerprints of rows and dead letters beside the watermark; a
plain consumer, which shares nothing with Sluice, reads the topic up to where that says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from spark_jobs.hot.fresh import read_fresh
from spark_jobs.hot.watermark import Watermark
from spark_jobs.query.query import query

if TYPE_CHECKING:
    from prove.lab.pipeline_lab import Lab
    from spark_jobs.hot.prefix import Prefix

    Pin = Callable[..., Prefix]

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
    """What fingerprints are made of."""

    count: int = 0
    offsets: int = 0
    weighted: int = 0

    def add(self, offset: int) -> None:
        self.count += 1
        self.offsets += offset
        self.weighted += offset * (offset + 7)

    @property
    def seen(self) -> tuple[int | None, ...]:
        """As SQL answers it, which has no group of nothing."""
        return (self.count, self.offsets, self.weighted) if self.count else (None, None, None)


@dataclass
class _Expected:
    rows: _Sums = field(default_factory=_Sums)
    letters: _Sums = field(default_factory=_Sums)
    ids: int = 0


def ask(lab: Lab, sql: str, *, pin: Pin | None = None, **how: Any) -> list[dict[str, Any]]:
    """Ask with what Kafka has beyond the table: what is read now, or what a follower pins."""
    with lab.connections() as connections:
        prefix = pin(**how) if pin else read_fresh(lab.pipeline, connections, **how)
        with query(lab.pipeline, connections, sql, prefix=prefix) as answer:
            return [row for batch in answer.batches for row in batch.to_pylist()]


def checked(lab: Lab, **how: Any) -> Watermark:
    """Ask once, compare with the topic, and return which records the answer has."""
    answer = ask(lab, _ASKED, **how)
    assert answer, "an answer without a watermark"
    for row in answer:
        found = _read(lab, row["partition"], row["start_offset"], row["end_offset"])
        expected = _Expected()
        for offset, value in found:
            number = _number(value)
            if value is not None and number is None:
                expected.letters.add(offset)
            elif number is not None:
                expected.rows.add(offset)
                expected.ids += number
        told = f"partition {row['partition']} up to {row['end_offset']}, seam {row['seam_offset']}"
        assert (row["rows"], row["o"], row["oo"]) == expected.rows.seen, told
        assert (row["letters"], row["lo"], row["loo"]) == expected.letters.seen, told
        assert (row["ids"] or 0) == expected.ids, told
    ends = {row["partition"]: row["end_offset"] for row in answer}
    return Watermark(answer[0]["generation"], answer[0]["rollbacks"], ends)


def hot_rows(lab: Lab, **how: Any) -> int:
    """How many rows of an answer are not in the lake yet."""
    (row,) = ask(lab, "SELECT sum(hot_rows)::BIGINT AS n FROM sluice_watermark", **how)
    return int(row["n"])


def _number(value: bytes | None) -> int | None:
    try:
        record = json.loads(value or b"")
    except ValueError:
        return None
    return record["id"] if isinstance(record, Mapping) else None


def _read(lab: Lab, partition: int, start: int, end: int) -> Iterator[tuple[int, bytes | None]]:
    """The readable records of ``[start, end)``."""
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
            message = consumer.poll(10)
            assert message is not None, f"the topic says nothing at {partition}:{start}"
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error  # noqa: SLF001  (librdkafka's own)
                return
            offset = message.offset()
            assert offset is not None
            if offset < end:
                yield offset, message.value()
            start = offset + 1
    finally:
        consumer.close()
