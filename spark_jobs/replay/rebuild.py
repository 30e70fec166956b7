"""Rebuilds a mirror from its topic in one commit that replaces all rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_jobs.commit.anchor import check_anchor
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import load_drained
from spark_jobs.drain.batch_run import BatchResult, CommittedBatches
from spark_jobs.drain.drain_batch import drain_batch, plan_of
from spark_jobs.drain.table_columns import ensure_tables, plan_columns
from spark_jobs.lake.tables import progress_of
from spark_jobs.notices.sender import NoticeSender
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.protocol.source import SourceState, check_identity
from spark_jobs.protocol.works.rebuild import REBUILD
from spark_jobs.replay.ranges import parse_moment
from spark_jobs.replay.replay import settle_left_replays

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections
    from spark_jobs.protocol.progress import Progress
    from spark_jobs.recovery.decide import RecoveryResult


@dataclass(frozen=True, slots=True)
class RebuildResult(CommittedBatches):
    """The result of a rebuild, in its one commit."""

    pipeline: str
    table: str
    batches: tuple[BatchResult]
    recovery: RecoveryResult

    @property
    def batch(self) -> BatchResult:
        """The only batch."""
        return self.batches[0]

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        """The ranges that were read."""
        return self.batch.batch.ranges.ranges


def begins_at(pipeline: PipelineConfig, connections: Connections, time: str | None) -> dict[int, int] | None:
    """Return the first offsets at or after a time, or the ends; None without a time."""
    if not time:
        return None
    since_ms, ends = parse_moment(time), connections.admin.source_state(pipeline.topic).end
    return ends | connections.admin.offsets_for_times(pipeline.topic, since_ms)


def rebuild_ranges(
    pipeline: PipelineConfig,
    connections: Connections,
    *,
    begins: Mapping[int, int] | None = None,
    force: bool = False,
) -> OffsetRanges:
    """Return a rebuild's ranges: from ``begins``, or the last rebuild's or table's start, to the end.

    Reads no record. Raises ``ConfigError`` (``not-a-mirror``), ``OffsetsUnavailable``
    (``rebuild-would-lose``) without ``force`` where Kafka does not hold the beginning any more,
    ``SourceChanged`` as a drain does.
    """
    pipeline.layout.refuse("rebuild", pipeline=pipeline.name)
    table = load_drained(pipeline, connections)
    source = connections.admin.source_state(pipeline.topic)
    check_identity(progress_of(table), source, table=pipeline.table)
    check_anchor(table)
    starts = dict(begins) if begins else _starts(pipeline, progress_of(table), source, force=force)
    return OffsetRanges.of(OffsetRange(p, starts.get(p, end), end) for p, end in source.end.items())


def rebuild(
    pipeline: PipelineConfig,
    connections: Connections,
    *,
    reason: str,
    begins: Mapping[int, int] | None = None,
    force: bool = False,
) -> RebuildResult:
    """Rebuild the mirror from its topic and replace all rows and dead letters in one commit.

    Columns take the types that their source has them in by now, in the same commit; what was told before in
    others is converted where it says the same, else it is a bad change.

    ``begins`` are by partition the offsets to begin at, where the source has told all its rows anew: of a
    restarted one its new snapshot. Drains that were planned before are refused; the next one goes on from
    where this one read to. Safe beside drains and upkeep, and to repeat; killed anywhere the mirror is as it
    was. Raises as ``rebuild_ranges`` and every kind of ``SluiceError``; ``CommitConflict`` when another
    rebuild or a rollback came first.
    """
    ranges = rebuild_ranges(pipeline, connections, begins=begins, force=force)
    recovery = settle_left_replays(pipeline, connections)
    source = connections.admin.source_state(pipeline.topic)
    tables = ensure_tables(pipeline, connections, source, REBUILD)
    if tables is None:
        raise AssertionError("the table existed a moment ago")
    columns = plan_columns(pipeline, connections, tables.data, source)
    if columns is not None:
        tables = replace(tables, data=columns.on(tables.data))
    run = plan_of(pipeline, connections, tables, source, ranges, work=REBUILD, reason=reason)
    cdc = progress_of(tables.data).cdc
    # Its key holds the same text for the same rows.
    run = replace(run, columns=columns, takes_all_but=frozenset((cdc and cdc.key) or ()))
    with NoticeSender(pipeline, connections) as notices:
        result, _ = drain_batch(run)
        notices.notify()
    return RebuildResult(pipeline.name, pipeline.table, (result,), recovery)


def _starts(
    pipeline: PipelineConfig, progress: Progress, source: SourceState, *, force: bool
) -> dict[int, int]:
    begun = progress.first_offsets | (progress.cdc.latest_begin if progress.cdc else {})
    first = {p: begun.get(p, source.low.get(p, 0)) for p in source.end}
    lost = {p: low for p, low in source.low.items() if low > first.get(p, low)}
    if lost and not force:
        partition, low = next(iter(lost.items()))
        raise fault(
            "rebuild-would-lose",
            number=partition,
            low=low,
            first=first[partition],
            **pipeline.where,
            topic=pipeline.topic,
        )
    return {p: max(offset, source.low.get(p, offset)) for p, offset in first.items()}
