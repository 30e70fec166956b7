"""The first batch of a table that does not exist: without one readable record no table is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.kafka.reader import open_reader
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import BadRecord
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.records.appearance import first_batch_unreadable
from spark_jobs.schema.evidence import Evidence
from spark_jobs.schema.iceberg_types import declared_fields
from spark_jobs.schema.minorities import impossible

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections

VALUES_LOOKED_AT = 100
MOST_RECORDS_READ = 10_000  # the first of a topic may be tombstones
_CHUNK_BYTES = 1 << 20


def is_unreadable(evidence: Evidence) -> bool:
    """True if values were seen and none can be read."""
    return evidence.undecodable > 0 and not evidence.records


def has_no_row(pipeline: PipelineConfig, evidence: Evidence) -> bool:
    """True if values were seen and none can become a row: unreadable, or none that fits its column."""
    return is_unreadable(evidence) or any(_impossible(pipeline, evidence))


def refuse_unreadable(
    pipeline: PipelineConfig, connections: Connections, ranges: OffsetRanges, evidence: Evidence
) -> None:
    """Raise ``BadRecord`` (first-batch-unreadable) when no value can become a row.

    ``ConfigError`` (mirror-without-key) where no change of a mirror has a key. Such a batch would be nothing
    but dead letters, in a table without a column of the topic's own.
    """
    if is_unreadable(evidence):
        values, has_keys = first_values(connections.kafka, pipeline.topic, ranges)
        raise first_batch_unreadable(pipeline, evidence.undecodable, values, has_keys=has_keys)
    for sentence in _impossible(pipeline, evidence):
        raise BadRecord(
            f"no record of the first batch would become a row: column {sentence}",
            code="first-batch-unreadable",
            hint=f"Correct `columns`; {mends.command('preview', pipeline.name)} shows what was seen.",
            pipeline=pipeline.name,
            topic=pipeline.topic,
        )


def _impossible(pipeline: PipelineConfig, evidence: Evidence) -> Iterator[str]:
    plain = {name: each.type for name, each in pipeline.columns.items() if not each.source}
    return impossible(declared_fields(plain), evidence, pipeline.table_schema.growth)


def first_values(kafka: Mapping[str, str], topic: str, ranges: OffsetRanges) -> tuple[list[bytes], bool]:
    """Read the first values of the ranges, at most ``VALUES_LOOKED_AT``, and whether a record had a key.

    Raises as ``RangeReader.read``.
    """
    values: list[bytes] = []
    read, has_keys = 0, False
    with open_reader(kafka, topic, chunk_bytes=_CHUNK_BYTES) as reader:
        for wanted in ranges:
            for chunk in reader.read(wanted):
                read += len(chunk.offsets)
                has_keys = has_keys or any(key is not None for key in chunk.keys)
                values += [value for value in chunk.values if value is not None]
                if len(values) >= VALUES_LOOKED_AT or read >= MOST_RECORDS_READ:
                    return values[:VALUES_LOOKED_AT], has_keys
    return values[:VALUES_LOOKED_AT], has_keys
