"""Plans a replay of offset ranges, checked against table and topic; changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.commit.anchor import check_anchor
from spark_jobs.commit.replace import Overlap, ReplacedOffsets, affected_files, task_overlap
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import load_drained
from spark_jobs.kafka.reader import cut_below
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.source import SourceState, check_identity
from spark_jobs.replay.ranges import cut_at, require_held, window_bounds, window_ranges

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """A planned replay; ``ranges`` are read again, ``ahead`` was requested and is not drained yet."""

    table: Table
    source: SourceState
    ranges: tuple[OffsetRange, ...]
    ahead: tuple[OffsetRange, ...]

    @property
    def records(self) -> int:
        """Number of offsets that are read again."""
        return sum(len(r) for r in self.ranges)


def plan_replay(
    pipeline: PipelineConfig, connections: Connections, ranges: Sequence[OffsetRange]
) -> ReplayPlan:
    """Check the ranges against table and topic; reads metadata, and at most a record per partition.

    What is beyond the table's next offsets is the live flow's and left out. Raises ``OffsetsUnavailable``
    when Kafka no longer holds a range or the log lost its end since, ``ConfigError`` when nothing is left to
    replay, there is no table or it is a mirror, ``SourceChanged`` as a drain does.
    """
    pipeline.layout.refuse("replay", pipeline=pipeline.name)
    table = load_drained(pipeline, connections)
    source = connections.admin.source_state(pipeline.topic)
    progress = progress_of(table)
    check_identity(progress, source, table=pipeline.table)
    check_anchor(table)
    drained, ahead = cut_at(ranges, progress.next_offsets)
    if not drained:
        raise fault(
            "replay-ahead",
            wanted=" ".join(map(str, ranges)) or "the range",
            table=pipeline.table,
            next_offsets=progress.next_offsets,
        )
    require_held(drained, source)
    # Other records may stand at the offsets of a log that was cut: the table's are the only copies then.
    for partition in sorted({each.partition for each in drained}):
        if (error := cut_below(connections.kafka, progress, source, partition)) is not None:
            raise error
    return ReplayPlan(table, source, drained, ahead)


def is_compacted(pipeline: PipelineConfig, connections: Connections) -> bool:
    """True if Kafka may remove records that a newer one of their key replaces.

    Raises ``ConfigError`` when they cannot be read, which takes a right that draining does not need.
    """
    return "compact" in connections.admin.topic_config(pipeline.topic).get("cleanup.policy", "")


@dataclass(frozen=True, slots=True)
class FileCounts:
    """Data files with rows of the ranges: wholly ``inside``, or ``straddling`` with other rows."""

    inside: int
    straddling: int


def files_to_replace(plan: ReplayPlan) -> FileCounts:
    """Count files that the plan would drop and rewrite, by their bounds; reads manifests only."""
    replaced = ReplacedOffsets.of(progress_of(plan.table).generation, plan.ranges)
    found = [task_overlap(plan.table, task, replaced) for task in affected_files(plan.table, replaced)]
    return FileCounts(found.count(Overlap.INSIDE), found.count(Overlap.STRADDLES))


def ranges_of_window(pipeline: PipelineConfig, connections: Connections, key: str) -> tuple[OffsetRange, ...]:
    """Return the drained part of a window that Kafka still holds, over all partitions.

    A window of which that is nothing is given whole: ``plan_replay`` then says why. Raises ``ConfigError``
    for a text that names no window, or when there is no table.
    """
    start, end = window_bounds(key)
    progress = progress_of(load_drained(pipeline, connections))
    source = connections.admin.source_state(pipeline.topic)
    found = window_ranges(key, source, progress.next_offsets)
    return found or tuple(OffsetRange(partition, start, end) for partition in sorted(progress.next_offsets))
