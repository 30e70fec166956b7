"""The first batch of a new table: without a readable record no table is created."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.kafka.reader import open_reader
from spark_jobs.protocol.batch import total
from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.records.appearance import unreadable_chunks
from spark_jobs.records.reading_plan import ReadingPlan
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.evolution import Evolution
from spark_jobs.schema.iceberg_types import declared_fields
from spark_jobs.schema.proposals import impossible

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections
    from spark_jobs.kafka.chunks import Chunk

VALUES_LOOKED_AT = 100
MOST_RECORDS_READ = 10_000  # the first of a topic may be tombstones
_CHUNK_BYTES = 1 << 20


def is_unreadable(evidence: Evidence) -> bool:
    """True if there were values and none is readable."""
    return evidence.undecodable > 0 and not evidence.records


def has_no_row(pipeline: PipelineConfig, evidence: Evidence) -> bool:
    """True if there were values and none can become a row: unreadable, or not fitting its columns."""
    return is_unreadable(evidence) or any(_impossible(pipeline, evidence))


def refuse_unreadable(
    plan: ReadingPlan, connections: Connections, ranges: OffsetRanges, evidence: Evidence
) -> None:
    """Raise ``BadRecord`` (first-batch-unreadable) if no value can become a row.

    ``ConfigError`` (mirror-without-key) where no change of a mirror has a key. Such a batch would be nothing
    but dead letters, in a table without a column of the topic's own.
    """
    pipeline = plan.pipeline
    if is_unreadable(evidence):
        chunks = _first_chunks(connections.kafka, pipeline.topic, ranges)
        count = evidence.undecodable
        raise unreadable_chunks(pipeline, plan.format.decoder, chunks, count=count, most=VALUES_LOOKED_AT)
    for sentence in _impossible(pipeline, evidence):
        raise _rowless(pipeline, f"column {sentence}")


def _impossible(pipeline: PipelineConfig, evidence: Evidence) -> Iterator[str]:
    plain = {name: each.type for name, each in pipeline.columns.items() if not each.source}
    return impossible(declared_fields(plain), evidence, pipeline.table_schema.growth)


def refuse_rowless(
    plan: ReadingPlan, connections: Connections, ranges: OffsetRanges, columns: Evolution
) -> None:
    """Raise ``BadRecord`` (first-batch-unreadable) if every value would be a dead letter.

    ``columns`` are those that the table would have. It reads up to the first that would be none.
    """
    pipeline, maker = plan.pipeline, plan.with_columns(columns).ended().rows()
    reasons: Counter[str] = Counter()
    for chunk in _chunks(connections.kafka, pipeline.topic, ranges):
        rows = maker.make(chunk)
        balance = total(rows.balances.values())
        if balance.dead_letters + balance.tombstones < len(chunk.offsets):
            return
        letters = rows.dead_letters.select(["field", "error"]).to_pylist()
        reasons.update(": ".join(filter(None, each.values())) for each in letters)
    for reason, count in reasons.most_common(1):
        raise _rowless(pipeline, f"{count:,} of {reasons.total():,} are refused for {reason}")


def _rowless(pipeline: PipelineConfig, why: str) -> SluiceError:
    return fault("first-batch-unreadable", why=why, pipeline=pipeline.name, topic=pipeline.topic)


def _chunks(kafka: Mapping[str, str], topic: str, ranges: OffsetRanges) -> Generator[Chunk, None, None]:
    with open_reader(kafka, topic, chunk_bytes=_CHUNK_BYTES) as reader:
        for wanted in ranges:
            yield from reader.read(wanted)


def _first_chunks(kafka: Mapping[str, str], topic: str, ranges: OffsetRanges) -> list[Chunk]:
    """Read the first chunks, up to ``VALUES_LOOKED_AT`` values. Raises as ``RangeReader.read``."""
    chunks: list[Chunk] = []
    read = values = 0
    with closing(_chunks(kafka, topic, ranges)) as every:
        for chunk in every:
            chunks.append(chunk)
            read += len(chunk.offsets)
            values += len(chunk.values) - chunk.values.count(None)
            if values >= VALUES_LOOKED_AT or read >= MOST_RECORDS_READ:
                break
    return chunks
