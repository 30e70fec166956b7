"""A batch about to be read, on the table and topic as they are now: its ranges, its splits and its fence."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.commit.anchor import check_anchor
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.shape import shape_of
from spark_jobs.drain.batch_run import BatchRun, Tables
from spark_jobs.drain.planning import MAX_SPLIT_BYTES, bytes_per_record, plan_ranges, plan_splits, resumed
from spark_jobs.kafka.log_cut import cut_below
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.batch import Batch
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.schema_id import SchemaKey
from spark_jobs.protocol.source import SourceState, drain_refusal
from spark_jobs.protocol.work import Work
from spark_jobs.protocol.works.drain import DRAIN

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections


def plan_batch(
    pipeline: PipelineConfig,
    connections: Connections,
    source: SourceState,
    tables: Tables,
    tried: Iterable[OffsetRanges] = (),
    *,
    within: OffsetRanges | None = None,
) -> BatchRun | None:
    """The next batch, or None when the table has everything up to the last stable offsets.

    ``tried`` are the ranges of attempts that did not finish, oldest first. ``within`` are ranges from the
    table's next offsets on to take instead of all that is there. Raises ``SourceChanged`` when the topic or
    the table is not the one that was drained before and ``OffsetsUnavailable`` when Kafka no longer holds
    the next offset, or what the table has below it.
    """
    progress = progress_of(tables.data)
    check_anchor(tables.data)
    ask_leader = partial(cut_below, connections.kafka, progress, source)
    refusal = drain_refusal(progress, source, table=pipeline.table, ask_leader=ask_leader)
    if refusal is not None:
        raise refusal
    if progress.table_layout.keeps_newest:
        _refuse_new_partitions(pipeline, progress, source)
    ranges = within or resumed(
        plan_ranges(
            progress.next_offsets,
            source,
            max_records=pipeline.max_batch_records,
            max_bytes=pipeline.max_batch_bytes,
            bytes_per_record=bytes_per_record(progress.last_drain),
        ),
        tried,
    )
    return plan_of(pipeline, connections, tables, source, ranges) if ranges else None


def plan_of(
    pipeline: PipelineConfig,
    connections: Connections,
    tables: Tables,
    source: SourceState,
    ranges: OffsetRanges,
    *,
    work: Work = DRAIN,
    reason: str = "",
) -> BatchRun:
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
        ingested_at_us=max(connections.now_us(), _last_commit_us(progress)),
        kind=work,
        epoch=work.fence.count(progress),
        cluster_id=source.cluster_id,
        topic_id=source.topic_id,
        leader_epochs={p: epoch for p, epoch in source.leader_epochs.items() if p in ranges.ends},
        read_by=_read_by(pipeline, connections, progress, work),
        shaped_by=shape_of(pipeline, connections),
    )
    splits = plan_splits(
        ranges,
        bytes_per_record=record_bytes,
        max_split_bytes=MAX_SPLIT_BYTES,
        parallelism=connections.parallelism,
    )
    return BatchRun(pipeline, connections, batch, splits, source, tables, record_bytes, reason)


def _refuse_new_partitions(pipeline: PipelineConfig, progress: Progress, source: SourceState) -> None:
    """Raise ``SourceChanged``: with more partitions a key's next events are elsewhere."""
    if new := sorted(set(source.end) - set(progress.next_offsets)):
        raise fault(
            "partitions-changed", new=", ".join(map(str, new)), **pipeline.where, topic=pipeline.topic
        )


def _read_by(
    pipeline: PipelineConfig, connections: Connections, progress: Progress, work: Work
) -> tuple[SchemaKey, ...]:
    if not pipeline.has_schemas:
        return ()
    return connections.schemas(pipeline).read_by(progress, asks_anew=work.asks_anew)


def _last_commit_us(progress: Progress) -> int:
    """Return a time that no row of the table was ingested after, so that clocks may be set back."""
    return progress.last_drain.committed_at_ms * 1000 if progress.last_drain else 0
