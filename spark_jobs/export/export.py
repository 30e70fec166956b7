"""Produces an archive's records to a topic unchanged: key, value, headers, timestamp and order.

The end of each of the topic's partitions says how far an export is, and nothing else: killed anywhere, the
same command goes on behind the last record that arrived. The producer is idempotent: none arrives twice, or
after a later one. Where offsets are kept, those without a record are filled in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.export.ordered import Gaps, OrderedProducer
from spark_jobs.export.plan import ExportPlan, archived_chunks, plan_export
from spark_jobs.export.target import Remainder, find_left, make_topic
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import OffsetRange

if TYPE_CHECKING:
    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections


@dataclass(frozen=True, slots=True)
class Exported:
    """An export's counts by partition: records present before, and records produced."""

    target: str
    ranges: tuple[OffsetRange, ...]
    there: dict[int, int]
    produced: dict[int, int]
    notes: tuple[str, ...] = ()


def export(
    pipeline: PipelineConfig,
    connections: Connections,
    target: str,
    ranges: Sequence[OffsetRange] = (),
    *,
    keep_offsets: bool = False,
    drained_by: Callable[[str], str | None] = lambda _topic: None,
    dry_run: bool = False,
    on_progress: Callable[[int, int], None] = lambda _done, _whole: None,
) -> Exported:
    """Produce records of these ranges, by default all, that the topic ``target`` lacks.

    With ``keep_offsets`` each gets the offset that it had, else they are counted anew. ``drained_by`` gives
    the pipeline that drains a topic. With ``dry_run`` nothing is produced, and ``Exported.produced`` is what
    would be. Safe to repeat. Raises as ``plan_export`` and ``find_left``, ``ConfigError`` for a topic
    that a pipeline drains (``export-target``) or somebody else writes to (``export-disturbed``), and
    ``RetryableError`` when the broker does not take a record.
    """
    if (by := drained_by(target)) is not None:  # its table would fill
        raise fault("export-target.drained", by=by, topic=target)
    plan = plan_export(pipeline, connections, ranges)
    left = find_left(plan, connections, target, keep_offsets=keep_offsets)
    present = {each.offsets.partition: each.there for each in left}
    lacking = {p: plan.records[p] - count for p, count in present.items()}
    if not dry_run:
        make_topic(connections, target, plan.partitions)
        connections.fail_points.reach("export.after-topic")
        _produce(plan, connections, target, left, keep_offsets=keep_offsets, on_progress=on_progress)
    return Exported(target, plan.ranges, present, lacking, plan.notes)


def _produce(
    plan: ExportPlan,
    connections: Connections,
    target: str,
    left: Sequence[Remainder],
    *,
    keep_offsets: bool,
    on_progress: Callable[[int, int], None],
) -> None:
    producer = OrderedProducer(connections.kafka, target, {each.offsets.partition: each.end for each in left})
    gaps = Gaps(connections, target, producer) if keep_offsets else None
    done, whole = 0, sum(plan.records[each.offsets.partition] - each.there for each in left)
    for each in left:
        for chunks in archived_chunks(plan.table, each.offsets, plan.generation):
            for chunk in chunks:
                for run in chunk.without_gaps() if gaps else [chunk]:
                    if gaps:
                        gaps.fill(run.partition, run.offsets[0])
                    producer.send(run)
                done += len(chunk.offsets)
            on_progress(done, whole)
            connections.fail_points.reach("export.after-window")
        if gaps:
            gaps.fill(each.offsets.partition, each.offsets.end)
        connections.fail_points.reach("export.after-partition")
    producer.finish()
