"""A batch about to be read, on the table and topic as they are now: its ranges, its splits and its fence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.drain.planning import bytes_per_record, plan_splits
from spark_jobs.drain.table_columns import MAX_SPLIT_BYTES
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.batch import Batch, BatchKind, Split
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import SourceState

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections
    from spark_jobs.drain.table_columns import Tables


@dataclass(frozen=True, slots=True)
class Plan:
    """A batch about to be drained, with what was true when it was planned.

    ``reason`` is that of the person who asked for it.
    """

    batch: Batch
    splits: tuple[Split, ...]
    source: SourceState
    table: Table
    dead_letter_table: Table
    progress: Progress
    bytes_per_record: int
    reason: str = ""


def plan_of(
    pipeline: PipelineConfig,
    connections: Connections,
    tables: Tables,
    source: SourceState,
    ranges: OffsetRanges,
    *,
    kind: BatchKind = BatchKind.DRAIN,
    reason: str = "",
) -> Plan:
    """The batch of these ranges as a new attempt, fenced by what the table's progress says now."""
    progress = progress_of(tables.data)
    record_bytes = bytes_per_record(progress.last_drain)
    batch = Batch(
        pipeline=pipeline.name,
        table=pipeline.table,
        topic=pipeline.topic,
        generation=progress.generation,
        ranges=ranges,
        attempt=connections.new_attempt(),
        ingested_at_us=connections.now_us(),
        kind=kind,
        epoch=progress.replay_epoch if kind is BatchKind.REPLAY else progress.rollbacks,
        cluster_id=source.cluster_id,
        topic_id=source.topic_id,
        leader_epochs={p: epoch for p, epoch in source.leader_epochs.items() if p in ranges.ends},
    )
    splits = plan_splits(
        ranges,
        bytes_per_record=record_bytes,
        max_split_bytes=MAX_SPLIT_BYTES,
        parallelism=connections.parallelism,
    )
    return Plan(batch, splits, source, tables.data, tables.dead_letters, progress, record_bytes, reason)
