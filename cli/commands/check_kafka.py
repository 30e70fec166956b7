"""The steps of ``check`` that look at what Kafka lets us do, and for how long."""

from __future__ import annotations

from datetime import UTC, datetime

from cli import output
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.connections.endpoints import resolve_kafka_properties
from spark_jobs.kafka.admin import KafkaAdmin
from spark_jobs.kafka.certificates import certificate_ends, ended_certificate
from spark_jobs.kafka.errors import not_authorised
from spark_jobs.kafka.reader import RangeReader
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.source import SourceState

QUEUE_BYTES = 1 << 20
READ_SECONDS = 15.0


def certificates(config: SluiceConfig) -> tuple[bool, str]:
    """When the certificates end, the client's and the broker's; one that has ended fails."""
    properties, now = resolve_kafka_properties(config), datetime.now(UTC)
    if (ended := ended_certificate(properties)) is not None:
        raise ended
    told = [
        f"the {whose}'s ends in {output.count((end - now).days, 'day')}, {end:%Y-%m-%d}"
        for whose, end in certificate_ends(properties).items()
    ]
    return True, ", ".join(told) or "the broker shows its own to clients with one alone"


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
