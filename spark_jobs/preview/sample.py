"""Samples a topic's records, and finds the format of their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pyiceberg.schema import Schema

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.value_format import ValueFormat
from spark_jobs.connections.writer_schemas import RecordSchemas
from spark_jobs.drain.planning import FIRST_GUESS_BYTES_PER_RECORD, plan_ranges
from spark_jobs.kafka.admin import KafkaAdmin
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.kafka.reader import open_reader
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.protocol.offsets import SchemaId
from spark_jobs.protocol.source import SourceState
from spark_jobs.records.appearance import ASK_THE_REGISTRY
from spark_jobs.records.decoder import Decoder
from spark_jobs.records.framing import KEY_HEADER, VALUE_HEADER, VALUES, Naming, unframe
from spark_jobs.records.reading_plan import ReadingPlan
from spark_jobs.registry.schema_store import SchemaStore
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.evolution import evolved
from spark_jobs.schema.iceberg_types import known_fields
from spark_jobs.schema.inference import Field

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
    """True if the topic keeps the newest record of a key; False if its settings are unknown."""
    with suppress(SluiceError):  # a right of its own, which reading does not need
        return "compact" in admin.topic_config(topic).get("cleanup.policy", "")
    return False


def look_at(plan: ReadingPlan, chunks: Sequence[Chunk]) -> tuple[ReadingPlan, Evidence]:
    """Return how the records are read, with the schemas that they name, and the evidence on them."""

    def observe(decoder: Decoder) -> Evidence:
        evidence = Evidence()
        for chunk in chunks:
            evidence = evidence.merge(decoder.observe(chunk, plan.growth)).within(plan.growth.max_fields_seen)
        return evidence

    return plan.observe(observe)


# What values that name schemas are written in: their registry is asked, and believed when they can be read.
#
# Keys are looked at as if they were values.


_ASKED_FIRST = 5  # schemas, by which the format is told
# Ids count up from 1: what begins with one zero byte and no second is other binary data.
_END_OF_IDS = 1 << 24


@dataclass(frozen=True, slots=True)
class Written:
    """The format of most values, by their registry's schemas; ``columns`` are the resulting ones."""

    format: ValueFormat
    evidence: Evidence
    columns: tuple[Field, ...]


def written_in(chunks: Sequence[Chunk], registry: SchemaStore | None) -> Written | str:
    """Return the values' format, or a sentence why it is unknown; empty if they name no schema.

    Nothing is raised for what the registry answers, or does not.
    """
    ids = sorted({each for chunk in chunks for each in _named(chunk)})
    if not ids:
        return ""
    if registry is None:
        return f"they name schema {_shown_ids(ids)} of a registry. {ASK_THE_REGISTRY}"
    try:
        return _look_up(chunks, ids, registry)
    except SluiceError as error:
        return error.message


def keys_as_values(chunk: Chunk) -> Chunk:
    """Return the records with keys as values, and the names of the keys' schemas."""
    headers: list[list[tuple[str, bytes | None]] | None] = [
        [(VALUE_HEADER, value) for name, value in each or () if name == KEY_HEADER] for each in chunk.headers
    ]
    keys: list[bytes | None] = [None] * len(chunk.offsets)
    return Chunk(chunk.partition, chunk.offsets, chunk.timestamps_ms, keys, chunk.keys, headers)


def _named(chunk: Chunk) -> Iterator[SchemaId]:
    present = [at for at, value in enumerate(chunk.values) if value is not None]
    values = [chunk.values[at] or b"" for at in present]
    headers = [chunk.headers[at] for at in present]
    for naming in (VALUES, Naming(has_indexes=True)) if present else ():
        for key in unframe(values, headers, naming).indices:
            if key is not None and (
                isinstance(key.schema_id.value, str) or key.schema_id.value < _END_OF_IDS
            ):
                yield key.schema_id


def _look_up(chunks: Sequence[Chunk], ids: Sequence[SchemaId], registry: SchemaStore) -> Written | str:
    found = registry.schemas_of(ids[:_ASKED_FIRST])
    languages = sorted({text.language.name for text in found.values()})
    if not languages:
        return f"the registry has no schema {_shown_ids(ids)}"
    # Formats are called as the languages of schemas are.
    format_ = ValueFormat.__members__.get(languages[0])
    if len(languages) > 1 or format_ is None:
        return f"according to the registry they are {' and '.join(languages)}, which is not supported"
    value = {"format": format_.value, "registry": "main"}
    evidence, columns = read_as({"value": value}, chunks, registry)
    unread, count = evidence.undecodable, evidence.undecodable + evidence.records
    if unread * 2 > count:
        return f"{unread:,} of {count:,} cannot be read as {format_} by the registry's schemas"
    return Written(format_, evidence, columns)


def _shown_ids(ids: Sequence[SchemaId]) -> str:
    return f"{', '.join(map(str, ids[:_ASKED_FIRST]))}{', ...' if len(ids) > _ASKED_FIRST else ''}"


def read_as(
    settings: Mapping[str, Any], chunks: Sequence[Chunk], registry: SchemaStore | None
) -> tuple[Evidence, tuple[Field, ...]]:
    """Return the evidence on records read with these settings, and the resulting columns."""
    names = {"name": "any", "topic": "any", "table": "any.any"}
    pipeline = PipelineConfig.model_validate({**names, **settings})
    schemas = RecordSchemas(
        pipeline.value,
        pipeline.record_key,
        topic=pipeline.topic,
        layout=pipeline.layout,
        registry=lambda _name: cast("SchemaStore", registry),
        folder=Path(),
    )
    plan, evidence = look_at(ReadingPlan.to_observe(pipeline, schemas), chunks)
    columns, _ = plan.first(evidence)
    return evidence, known_fields(evolved(Schema(), columns))
