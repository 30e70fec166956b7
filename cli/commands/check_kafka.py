"""The steps of ``check`` that look at what Kafka lets us do, and for how long."""

from __future__ import annotations

from datetime import UTC, datetime

from cli import output
from spark_jobs.kafka.admin import KafkaAdmin
from spark_jobs.kafka.client_properties import certificate_ends
from spark_jobs.kafka.errors import not_authorised
from spark_jobs.kafka.reader import RangeReader
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.source import SourceState

QUEUE_BYTES = 1 << 20
READ_SECONDS = 15.0


def told_ends(kafka: dict[str, str]) -> str:
    """Return how long the certificates last, the broker's and the client's; empty without TLS."""
    now = datetime.now(UTC)
    days = {whose: output.count((end - now).days, "day") for whose, end in certificate_ends(kafka).items()}
    return "".join(f", the {whose}'s certificate ends in {left}" for whose, left in days.items())


def read_one(kafka: dict[str, str], source: SourceState) -> tuple[bool, str]:
    """Read the first record there is; where there is none, ask whether one might."""
    filled = [partition for partition, end in source.end.items() if end > source.low[partition]]
    if not filled:
        rights = KafkaAdmin(kafka).rights(source.topic)  # none at all: a broker that does not tell them
        if rights and "READ" not in rights:
            raise not_authorised("Read", "looking at the rights", topic=source.topic)
        return True, "granted, nothing to read yet"
    start = source.low[filled[0]]
    reader = RangeReader(
        kafka,
        source.topic,
        max_chunk_bytes=QUEUE_BYTES,
        queue_bytes=QUEUE_BYTES,
        max_chunk_records=1,
        read_timeout_seconds=READ_SECONDS,
    )
    try:
        read = sum(len(chunk.offsets) for chunk in reader.read(OffsetRange(filled[0], start, start + 1)))
    finally:
        reader.close()
    return True, f"{output.count(read, 'record')} of partition {filled[0]} at offset {start}"
