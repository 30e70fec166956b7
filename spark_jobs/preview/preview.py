"""Preview a pipeline: read some records, decide columns, see what would be dead letters; write nothing.

In this process, without Spark: what a first batch decides from all of its records is decided here from few.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.settings import KeyFormat, StartKind
from spark_jobs.connections.tables import load_fresh
from spark_jobs.drain.planning import plan_ranges, water_fill
from spark_jobs.drain.start_offsets import resolve_start
from spark_jobs.kafka.reader import RangeReader
from spark_jobs.lake.tables import progress_of
from spark_jobs.records.infer import observe
from spark_jobs.records.json import decode_chunk
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.iceberg_types import declared_fields, iceberg_schema, known_fields
from spark_jobs.schema.inference import Field, ListOf, MapOf, StructOf, choose_types, evolve
from spark_jobs.schema.metadata_columns import METADATA_COLUMNS, with_metadata_columns
from spark_jobs.schema.partitioning import partition_spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections
    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.protocol.source import SourceState
    from spark_jobs.records.decoded import Decoded
    from spark_jobs.schema.inference import Addition, FieldType

QUEUE_BYTES = 8 << 20
MAX_BYTES = 256 << 20  # of values held at once
FIRST_GUESS_BYTES_PER_RECORD = 512


@dataclass(frozen=True, slots=True)
class DeadLetterExample:
    """A record that would be a dead letter; ``field`` is None when it concerns the record as a whole."""

    partition: int
    offset: int
    field: str | None
    error: str


@dataclass(frozen=True, slots=True)
class PartitionUse:
    """One partition field; ``values``: how many different ones the records have, None: not looked at."""

    term: str
    values: int | None


@dataclass(frozen=True, slots=True)
class Preview:
    """What the records read would become; ``rows`` + ``tombstones`` + dead letters are ``records``.

    ``is_new``: there is no table yet. ``columns`` are the JSON's, with those that an existing table lacks;
    these are named in ``added``, dotted.
    """

    topic: str
    table: str
    is_new: bool
    records: int
    rows: int
    tombstones: int
    evidence: Evidence
    columns: tuple[Field, ...]
    added: tuple[str, ...]
    dead_letters: tuple[DeadLetterExample, ...]
    partitioning: tuple[PartitionUse, ...]


def preview(pipeline: PipelineConfig, connections: Connections, *, max_records: int) -> Preview:
    """Read up to ``max_records`` from where the next batch would start and decode them.

    With ``start: latest`` and no table yet, the last records there are. Raises ``SluiceError`` as a drain
    does, ``ConfigError`` also for a partitioning that the table could not be made with.
    """
    source = connections.admin.source_state(pipeline.topic)
    table = load_fresh(connections, pipeline.table)
    starts = _starts(pipeline, connections, source, table, max_records)
    chunks = _read(connections, source, starts, max_records)
    filled = [
        chunk.take([i for i, value in enumerate(chunk.values) if value is not None]) for chunk in chunks
    ]
    evidence = _observe(filled)
    columns, added = _columns(pipeline, table, evidence)
    decoded = [decode_chunk(_values(chunk), arrow_schema(iceberg_schema(columns))) for chunk in filled]
    dead_letters = tuple(
        letter
        for chunk, rows in zip(filled, decoded, strict=True)
        for letter in _dead_letters(pipeline, chunk, rows)
    )
    records = sum(len(chunk.offsets) for chunk in chunks)
    tombstones = records - sum(len(chunk.offsets) for chunk in filled)
    return Preview(
        topic=pipeline.topic,
        table=pipeline.table,
        is_new=table is None,
        records=records,
        rows=records - tombstones - len(dead_letters),
        tombstones=tombstones,
        evidence=evidence,
        columns=columns,
        added=added,
        dead_letters=dead_letters,
        partitioning=_partitioning(pipeline, table, columns, decoded),
    )


def _starts(
    pipeline: PipelineConfig,
    connections: Connections,
    source: SourceState,
    table: Table | None,
    max_records: int,
) -> dict[int, int]:
    if table is not None:
        return progress_of(table).next_offsets
    if pipeline.start.kind is StartKind.LATEST:
        back = water_fill({p: end - source.low[p] for p, end in source.end.items()}, max_records)
        return {p: end - back[p] for p, end in source.end.items()}
    return resolve_start(
        pipeline.start, source, lambda time_ms: connections.admin.offsets_for_times(pipeline.topic, time_ms)
    )


def _read(
    connections: Connections, source: SourceState, starts: dict[int, int], max_records: int
) -> list[Chunk]:
    ranges = plan_ranges(
        starts,
        source,
        max_records=max_records,
        bytes_per_record=FIRST_GUESS_BYTES_PER_RECORD,
        max_bytes=MAX_BYTES,
    )
    reader = RangeReader(
        connections.kafka, source.topic, max_chunk_bytes=QUEUE_BYTES, queue_bytes=QUEUE_BYTES
    )
    chunks: list[Chunk] = []
    try:
        for offset_range in ranges:
            for chunk in reader.read(offset_range):
                chunks.append(chunk)
                if sum(one.record_bytes for one in chunks) > MAX_BYTES:
                    return chunks
    finally:
        reader.close()
    return chunks


def _values(chunk: Chunk) -> list[bytes]:
    return [value for value in chunk.values if value is not None]


def _observe(chunks: Sequence[Chunk]) -> Evidence:
    evidence = Evidence()
    for chunk in chunks:
        seen = observe(_values(chunk), partition=chunk.partition, offsets=chunk.offsets)
        evidence = evidence.merge(seen)
    return evidence


def _columns(
    pipeline: PipelineConfig, table: Table | None, evidence: Evidence
) -> tuple[tuple[Field, ...], tuple[str, ...]]:
    if table is None:
        return choose_types(evidence, declared_fields(pipeline.columns)), ()
    columns = known_fields(table.schema())
    additions = evolve(columns, evidence)
    for addition in additions:
        columns = _with_addition(columns, addition.path, addition)
    return columns, tuple(".".join(addition.path) for addition in additions)


def _with_addition(
    columns: tuple[Field, ...], path: tuple[str, ...], addition: Addition
) -> tuple[Field, ...]:
    name, *inner = path
    if not inner:
        return (*columns, Field(name, addition.type))
    return tuple(
        Field(name, _type_with_addition(column.type, tuple(inner), addition))
        if column.name == name
        else column
        for column in columns
    )


def _type_with_addition(kind: FieldType, path: tuple[str, ...], addition: Addition) -> FieldType:
    if isinstance(kind, StructOf):
        return StructOf(_with_addition(kind.fields, path, addition))
    if isinstance(kind, ListOf):
        return ListOf(_type_with_addition(kind.element, path[1:], addition))
    if isinstance(kind, MapOf):
        return MapOf(_type_with_addition(kind.value, path[1:], addition))
    return kind


def _dead_letters(pipeline: PipelineConfig, chunk: Chunk, decoded: Decoded) -> list[DeadLetterExample]:
    bad = {value.index: (value.field, value.error) for value in decoded.bad}
    if pipeline.key_format is KeyFormat.STRING:
        for index, key in enumerate(chunk.keys):
            if key is not None and index not in bad and not _is_text(key):
                bad[index] = ("_kafka_key", "the key is not UTF-8 (key_format: binary keeps it as it is)")
    return [
        DeadLetterExample(chunk.partition, chunk.offsets[index], field, error)
        for index, (field, error) in sorted(bad.items())
    ]


def _is_text(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True


def _partitioning(
    pipeline: PipelineConfig, table: Table | None, columns: tuple[Field, ...], decoded: Sequence[Decoded]
) -> tuple[PartitionUse, ...]:
    if table is not None:
        schema, spec = table.schema(), table.spec()
    else:
        is_binary = pipeline.key_format is KeyFormat.BINARY
        schema = with_metadata_columns(iceberg_schema(columns), key_is_binary=is_binary)
        spec = partition_spec(schema, pipeline.partition_by)
    rows = pa.concat_tables([one.table for one in decoded]) if decoded else None
    return tuple(_partition_uses(schema, spec, rows))


def _partition_uses(schema: Schema, spec: PartitionSpec, rows: pa.Table | None) -> list[PartitionUse]:
    uses = []
    for field in spec.fields:
        name = schema.find_column_name(field.source_id) or "?"
        values = None
        if rows is not None and name.split(".")[0] not in METADATA_COLUMNS:
            column = pc.struct_field(rows.to_struct_array().combine_chunks(), name.split("."))
            transformed = field.transform.pyarrow_transform(schema.find_type(field.source_id))(column)
            values = len(pc.unique(transformed))
        uses.append(PartitionUse(f"{field.transform}({name})", values))
    return uses
