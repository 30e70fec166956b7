"""Rehearses a schema that values are not written with yet: the newest records, as if they were.

Protobuf and JSON Schema read the same bytes by it; Avro's values are rewritten by Avro's own rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from spark_jobs.config.value_format import Framing
from spark_jobs.formats.avro.rewrite import rewriter
from spark_jobs.formats.avro.schema import AvroSchema
from spark_jobs.formats.protobuf.schema import ProtobufSchema
from spark_jobs.lake.tables import progress_of
from spark_jobs.preview.preview import DeadLetterExample, Preview, newest, preview_of, topic_and_table
from spark_jobs.preview.sample import read_sample
from spark_jobs.quality.judge import columns_of, judge
from spark_jobs.records.by_schema import framed_values
from spark_jobs.records.decoder import Encoded

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema

    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections
    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.protocol.offsets import SchemaKey
    from spark_jobs.schema.column_source import KnownSchemas
    from spark_jobs.schema.writer_schema import WriterSchema


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The outcome for the newest records, written with the new schema.

    ``dead_letters`` are those that the records are not today. ``left_out`` counts by reason the records that
    the new schema cannot hold, which ``seen`` is without. ``failed_gates`` say what their rows do not meet.
    """

    seen: Preview
    dead_letters: tuple[DeadLetterExample, ...]
    left_out: Mapping[str, int]
    failed_gates: tuple[str, ...]

    @property
    def is_safe(self) -> bool:
        """True if no record of these becomes a dead letter and no gate fails."""
        return not (self.dead_letters or self.failed_gates or self.fits_none)

    @property
    def fits_none(self) -> bool:
        """True if the new schema can hold none of the records, so that nothing could be rehearsed."""
        return bool(self.left_out) and not self.seen.balance.offsets


def rehearse(
    pipeline: PipelineConfig,
    connections: Connections,
    *,
    file: str | None = None,
    version: int | None = None,
    max_records: int,
) -> Rehearsal:
    """Read the topic's newest records as if written with the schema in ``file``, or that version's.

    Writes no table. Raises ``SluiceError`` as ``preview`` does, ``ConfigError`` for a schema that cannot be
    used. The pipeline's format must have a schema, and with ``version`` a registry.
    """
    source, table = topic_and_table(pipeline, connections)
    chunks = read_sample(connections.kafka, source, newest(source, max_records), max_records=max_records)
    today, _, plan = preview_of(pipeline, connections, table, chunks)
    changed = _with_schema(pipeline, plan.known, file, version)
    wanted = connections.schemas(changed)
    new = wanted.known(None if table is None else wanted.planned(progress_of(table))).every[-1]
    left_out: Counter[str] = Counter()
    written = [_rewritten(chunk, plan.known, new, left_out) for chunk in chunks]
    seen, rows, after = preview_of(changed, connections, table, written)
    known = {(each.partition, each.offset) for each in today.dead_letters}
    letters = tuple(each for each in seen.dead_letters if (each.partition, each.offset) not in known)
    return Rehearsal(seen, letters, left_out, tuple(_failed_gates(pipeline, rows, after.schema)))


def _with_schema(
    pipeline: PipelineConfig, known: KnownSchemas, file: str | None, version: int | None
) -> PipelineConfig:
    """Return the pipeline whose values name no schema and are all read by this one.

    In Protobuf it is the message that the newest known schema of the records is.
    """
    messages = [each.message for each in known.every if isinstance(each, ProtobufSchema)]
    place: dict[str, object] = (
        {"file": file, "registry": None}
        if file is not None
        else {"file": None, "framing": Framing.NONE, "version": version}
    )
    if pipeline.value.framing is Framing.GLUE:  # its serializers call the schema like the topic
        place["subject"] = pipeline.topic
    place |= {"message": pipeline.value.message or (messages[-1] if messages else None)}
    return pipeline.model_copy(update={"value": pipeline.value.model_copy(update=place)})


def _rewritten(chunk: Chunk, known: KnownSchemas, new: WriterSchema, left_out: Counter[str]) -> Chunk:
    """Return the chunk with unframed values of the new schema, without records that it cannot hold."""
    values: list[bytes | None] = [None] * len(chunk.values)
    encoded = Encoded.there(chunk)
    framed = framed_values(encoded, known)
    write = cache(partial(_writer, known, new))
    gone: dict[int, str] = {int(encoded.rows[at]): why for at, why in framed.unframed.items()}
    for key, indices in framed.indices.items():
        for at, value in zip(indices.tolist(), framed.values[key], strict=True):
            row = encoded.rows[at]
            try:
                values[row] = write(key)(bytes(value))
            except ValueError as error:
                gone[row] = str(error)
    left_out.update(gone.values())
    kept = chunk.take([row for row in range(len(values)) if row not in gone])
    kept.values = [value for row, value in enumerate(values) if row not in gone]
    return kept


def _writer(known: KnownSchemas, new: WriterSchema, key: SchemaKey | None) -> Callable[[bytes], bytes]:
    old = known.by_key.get(key)
    if old is None:
        return partial(_refuse, known.why_none(key))
    if isinstance(old, AvroSchema) and isinstance(new, AvroSchema):
        return rewriter(old.source, new.source)
    if isinstance(old, ProtobufSchema) and isinstance(new, ProtobufSchema) and old.message != new.message:
        return partial(_refuse, f"it is a {old.message}, not a {new.message}")
    return bytes


def _refuse(why: str, _value: bytes) -> bytes:
    raise ValueError(why)


def _failed_gates(pipeline: PipelineConfig, rows: pa.Table, schema: Schema) -> Iterator[str]:
    """Yield what the rows do not meet; nothing of a mirror, whose gates judge the rows that changes leave."""
    if pipeline.layout.keeps_newest or not pipeline.gates:
        return
    judged = rows.select(columns_of(pipeline.gates, schema))
    for suite in pipeline.gates:
        result = judge(suite, judged, schema).result
        if not result.is_met:
            yield result.story
