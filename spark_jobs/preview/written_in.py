"""What values that name schemas are written in: their registry is asked, and believed when they can be read.

Keys are looked at as if they were values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pyiceberg.schema import Schema

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.value_format import ValueFormat
from spark_jobs.connections.writer_schemas import RecordSchemas
from spark_jobs.kafka.chunks import Chunk
from spark_jobs.preview.sample import look_at
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.records.appearance import ASK_THE_REGISTRY
from spark_jobs.records.framing import KEY_HEADER, VALUE_HEADER, VALUES, Naming, unframe
from spark_jobs.schema.evolution import evolved
from spark_jobs.schema.iceberg_types import declared_fields, known_fields

if TYPE_CHECKING:
    from spark_jobs.protocol.schema_id import SchemaId
    from spark_jobs.registry.kept_schemas import KeptSchemas
    from spark_jobs.schema.evidence import Evidence
    from spark_jobs.schema.inference import Field

_ASKED_FIRST = 5  # schemas, by which the format is told
# Ids count up from 1: what begins with one zero byte and no second is other binary data.
_END_OF_IDS = 1 << 24


@dataclass(frozen=True, slots=True)
class Written:
    """Values that most can be read, by schemas of their registry; ``columns`` are what they would make."""

    format: ValueFormat
    evidence: Evidence
    columns: tuple[Field, ...]


def written_in(chunks: Sequence[Chunk], registry: KeptSchemas | None) -> Written | str:
    """Return what the values are written in, or a sentence why that cannot be told; empty: they name nothing.

    Nothing is raised for what the registry answers, or does not.
    """
    ids = sorted({each for chunk in chunks for each in _named(chunk)})
    if not ids:
        return ""
    if registry is None:
        return f"they name schema {_told(ids)} of a registry. {ASK_THE_REGISTRY}"
    try:
        return _asked(chunks, ids, registry)
    except SluiceError as error:
        return error.message


def keys_as_values(chunk: Chunk) -> Chunk:
    """Return the records with their keys as values, and what names the keys' schemas."""
    headers: list[list[tuple[str, bytes | None]] | None] = [
        [(VALUE_HEADER, value) for name, value in each or () if name == KEY_HEADER] for each in chunk.headers
    ]
    keys: list[bytes | None] = [None] * len(chunk.offsets)
    return Chunk(chunk.partition, chunk.offsets, chunk.timestamps_ms, keys, chunk.keys, headers)


def _named(chunk: Chunk) -> Iterator[SchemaId]:
    there = [at for at, value in enumerate(chunk.values) if value is not None]
    values = [chunk.values[at] or b"" for at in there]
    headers = [chunk.headers[at] for at in there]
    for naming in (VALUES, Naming(has_indexes=True)) if there else ():
        for key in unframe(values, headers, naming).indices:
            if key is not None and (
                isinstance(key.schema_id.value, str) or key.schema_id.value < _END_OF_IDS
            ):
                yield key.schema_id


def _asked(chunks: Sequence[Chunk], ids: Sequence[SchemaId], registry: KeptSchemas) -> Written | str:
    found = registry.schemas_of(ids[:_ASKED_FIRST])
    languages = sorted({text.language.name for text in found.values()})
    if not languages:
        return f"the registry has no schema {_told(ids)}"
    # Formats are called as the languages of schemas are.
    format_ = ValueFormat.__members__.get(languages[0])
    if len(languages) > 1 or format_ is None:
        return f"by the registry they are {' and '.join(languages)}, which is not read"
    value = {"format": format_.value, "registry": "main"}
    evidence, columns = read_as({"value": value}, chunks, registry)
    unread, count = evidence.undecodable, evidence.undecodable + evidence.records
    if unread * 2 > count:
        return f"{unread:,} of {count:,} cannot be read as {format_} by the registry's schemas"
    return Written(format_, evidence, columns)


def _told(ids: Sequence[SchemaId]) -> str:
    return f"{', '.join(map(str, ids[:_ASKED_FIRST]))}{', ...' if len(ids) > _ASKED_FIRST else ''}"


def read_as(
    settings: Mapping[str, Any], chunks: Sequence[Chunk], registry: KeptSchemas | None
) -> tuple[Evidence, tuple[Field, ...]]:
    """Return what is seen of records by a pipeline with these settings, and the columns that they make."""
    names = {"name": "any", "topic": "any", "table": "any.any"}
    pipeline = PipelineConfig.model_validate({**names, **settings})
    schemas = RecordSchemas(
        pipeline.value,
        pipeline.record_key,
        topic=pipeline.topic,
        is_archive=False,
        registry=lambda _name: cast("KeptSchemas", registry),
        folder=Path(),
    )
    found, evidence = look_at(pipeline, schemas, chunks)
    columns, _ = found.columns.first(evidence, declared_fields(pipeline.declared))
    return evidence, known_fields(evolved(Schema(), columns))
