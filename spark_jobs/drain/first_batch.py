"""The first batch of a table that does not exist: without one readable record no table is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.kafka.reader import open_reader
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.records.appearance import first_batch_unreadable
from spark_jobs.schema.evidence import Evidence

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections

VALUES_LOOKED_AT = 100
MOST_RECORDS_READ = 10_000  # the first of a topic may be tombstones
_CHUNK_BYTES = 1 << 20


def is_unreadable(evidence: Evidence) -> bool:
    """True if values were seen and none is a JSON object."""
    return evidence.undecodable > 0 and not evidence.records


def refuse_unreadable(
    pipeline: PipelineConfig, connections: Connections, ranges: OffsetRanges, evidence: Evidence
) -> None:
    """Raise ``BadRecord`` (first-batch-unreadable) when no value can be read.

    Such a batch would be nothing but dead letters, in a table without a column of the topic's own.
    """
    if is_unreadable(evidence):
        values = first_values(connections.kafka, pipeline.topic, ranges)
        raise first_batch_unreadable(pipeline.name, pipeline.topic, evidence.undecodable, values)


def first_values(kafka: Mapping[str, str], topic: str, ranges: OffsetRanges) -> list[bytes]:
    """Read the first values of the ranges, at most ``VALUES_LOOKED_AT``. Raises as ``RangeReader.read``."""
    values: list[bytes] = []
    read = 0
    with open_reader(kafka, topic, chunk_bytes=_CHUNK_BYTES) as reader:
        for wanted in ranges:
            for chunk in reader.read(wanted):
                read += len(chunk.offsets)
                values += [value for value in chunk.values if value is not None]
                if len(values) >= VALUES_LOOKED_AT or read >= MOST_RECORDS_READ:
                    return values[:VALUES_LOOKED_AT]
    return values[:VALUES_LOOKED_AT]
