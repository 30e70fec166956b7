"""Some records of a topic, and what is seen of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.writer_schemas import RecordSchemas
from spark_jobs.drain.planning import FIRST_GUESS_BYTES_PER_RECORD, plan_ranges
from spark_jobs.kafka.reader import open_reader
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.records.formats import Format, format_of
from spark_jobs.schema.evidence import Evidence

if TYPE_CHECKING:
    from spark_jobs.kafka.admin import KafkaAdmin
    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.protocol.progress import Progress
    from spark_jobs.protocol.source import SourceState
    from spark_jobs.records.decoder import Decoder

CHUNK_BYTES = 2 << 20
MAX_BYTES = 256 << 20  # of values held at once


def read_sample(
    kafka: Mapping[str, str], source: SourceState, starts: Mapping[int, int], *, max_records: int
) -> list[Chunk]:
    """Read up to ``max_records`` from these offsets, evenly over the partitions."""
    ranges = plan_ranges(
        starts,
        source,
        max_records=max_records,
        bytes_per_record=FIRST_GUESS_BYTES_PER_RECORD,
        max_bytes=MAX_BYTES,
    )
    chunks: list[Chunk] = []
    with open_reader(kafka, source.topic, chunk_bytes=CHUNK_BYTES) as reader:
        for offset_range in ranges:
            for chunk in reader.read(offset_range):
                chunks.append(chunk)
                if sum(one.record_bytes for one in chunks) > MAX_BYTES:
                    return chunks
    return chunks


def is_compacted(admin: KafkaAdmin, topic: str) -> bool:
    """Return whether the topic keeps the newest record of a key; False where its settings are not told."""
    with suppress(SluiceError):  # a right of its own, which reading does not need
        return "compact" in admin.topic_config(topic).get("cleanup.policy", "")
    return False


def observe_sample(decoder: Decoder, chunks: Iterable[Chunk]) -> Evidence:
    """Return what was seen of all fields."""
    evidence = Evidence()
    for chunk in chunks:
        evidence = evidence.merge(decoder.observe(chunk)).within(decoder.growth.max_fields_seen)
    return evidence


def look_at(
    pipeline: PipelineConfig,
    schemas: RecordSchemas,
    chunks: Sequence[Chunk],
    progress: Progress | None = None,
) -> tuple[Format, Evidence]:
    """Return how the records are read, by the schemas that they name too, and what was seen of them."""
    known = schemas.known(progress)
    while True:
        found = format_of(pipeline, known)
        evidence = observe_sample(found.decoder, chunks)
        before, known = known, schemas.learn(evidence.schemas, progress)
        if known.names == before.names:
            return found, evidence
