"""Some records of a topic, and what they say of it before there is a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.writer_schemas import RecordSchemas
from spark_jobs.drain.first_batch import is_unreadable
from spark_jobs.drain.planning import FIRST_GUESS_BYTES_PER_RECORD, plan_ranges
from spark_jobs.kafka.admin import KafkaAdmin
from spark_jobs.kafka.reader import open_reader
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.records.appearance import appearance
from spark_jobs.records.formats import JSON, Format, format_of
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.inference import choose_types
from spark_jobs.schema.proposals import Proposals, propose

if TYPE_CHECKING:
    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.protocol.progress import Progress
    from spark_jobs.protocol.source import SourceState
    from spark_jobs.records.decoder import Decoder

CHUNK_BYTES = 2 << 20
MAX_BYTES = 256 << 20  # of values held at once


@dataclass(frozen=True, slots=True)
class Prospect:
    """What the first records of a topic look like.

    ``unreadable`` says what the values are when there are some and none can be read, and is empty otherwise.
    ``columns`` counts those that a first batch of these records would make.
    """

    topic: str
    records: int
    columns: int
    unreadable: str
    proposals: Proposals


def prospects(
    kafka: Mapping[str, str], topics: Iterable[str], *, max_records: int
) -> Iterator[tuple[str, Prospect | SluiceError]]:
    """Yield each topic with what its first records look like, or why they could not be read.

    Raises as ``KafkaAdmin.source_states`` does when the broker itself cannot be asked.
    """
    with closing(KafkaAdmin(kafka)) as admin:
        sources = admin.source_states(topics)
    for topic, source in sources.items():
        if isinstance(source, SluiceError):
            yield topic, source
            continue
        try:
            yield topic, _prospect(read_sample(kafka, source, source.low, max_records=max_records), topic)
        except SluiceError as error:
            yield topic, error


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


def values_of(chunks: Iterable[Chunk]) -> list[bytes]:
    """Return the values in order, without those of tombstones."""
    return [value for chunk in chunks for value in chunk.values if value is not None]


def _prospect(chunks: list[Chunk], topic: str) -> Prospect:
    evidence = observe_sample(JSON.decoder, chunks)
    columns = choose_types(evidence, max_columns=JSON.decoder.growth.max_columns)
    return Prospect(
        topic,
        records=sum(len(chunk.offsets) for chunk in chunks),
        columns=len(columns),
        unreadable=appearance(values_of(chunks)) if is_unreadable(evidence) else "",
        proposals=propose(columns, evidence),
    )
