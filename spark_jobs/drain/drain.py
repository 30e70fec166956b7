"""Drain a topic into its table, one commit a batch, until it has caught up or the budget is used.

What one batch goes through is in ``spark_jobs.drain.drain_batch``; what a task does in
``spark_jobs.drain.split_task``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.commit.anchor import check_anchor
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.tables import load_fresh
from spark_jobs.drain.batch_plan import plan_of
from spark_jobs.drain.batch_run import BatchResult
from spark_jobs.drain.halving import drain_whole_or_halved
from spark_jobs.drain.leaders import cut_below
from spark_jobs.drain.narrowing import resumed
from spark_jobs.drain.planning import bytes_per_record, plan_ranges
from spark_jobs.drain.table_columns import Tables, ensure_tables
from spark_jobs.lake.tables import progress_of
from spark_jobs.notices.sender import NoticeSender
from spark_jobs.protocol.batch import Balance, Pause, total
from spark_jobs.protocol.errors import BatchHeld, SluiceError
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.refusal import drain_refusal
from spark_jobs.protocol.source import SourceState
from spark_jobs.recovery.recover import recover
from spark_jobs.recovery.recovered import HeldBatch, RecoveryResult

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections
    from spark_jobs.drain.batch_plan import Plan

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DrainResult:
    """What one run did; ``lag_records`` is what arrived or was left, 0 when a pause met it before it asked.

    ``stopped`` is "caught-up", "budget", "paused" by an operator, or "held": a batch failed a quality gate,
    and those after it wait.
    """

    pipeline: str
    table: str
    batches: tuple[BatchResult, ...]
    recovery: RecoveryResult
    stopped: str
    lag_records: int
    next_offsets: dict[int, int]
    valid_through_ms: int | None
    held: tuple[HeldBatch, ...] = ()
    paused: Pause | None = None

    @property
    def balance(self) -> Balance:
        """Sum over the run's batches."""
        return total(batch.balance for batch in self.batches)


def drain(
    pipeline: PipelineConfig,
    connections: Connections,
    *,
    budget_seconds: float,
    on_progress: Callable[[BatchResult], None],
) -> DrainResult:
    """Recover what earlier runs left, then commit batch after batch up to where the topic ended at the start.

    What arrives meanwhile is taken along by the last batch, and by further ones only when it fills them: a
    steady flow would otherwise be committed in ever smaller files for as long as the budget lasts.
    ``on_progress`` is called after each commit. Safe to run again at any time and beside another run of the
    same pipeline: the one whose commit comes second gets ``CommitConflict``. A pause stops it before the
    next batch. Raises every kind of ``SluiceError``; what was committed before stays committed.
    """
    with NoticeSender(pipeline, connections) as notices:

        def committed(batch: BatchResult) -> None:
            notices.tell()
            on_progress(batch)

        return _drain(pipeline, connections, budget_seconds, committed)


def _drain(
    pipeline: PipelineConfig,
    connections: Connections,
    budget_seconds: float,
    on_progress: Callable[[BatchResult], None],
) -> DrainResult:
    if (progress := _progress(pipeline, connections)) is not None and progress.paused:
        return _not_begun(pipeline, progress)
    deadline = time.monotonic() + budget_seconds
    recovery = recover(pipeline, connections)
    batches: list[BatchResult] = []
    goal: dict[int, int] | None = None
    held = recovery.held
    while True:
        source = connections.admin.source_state(pipeline.topic)
        tables = ensure_tables(pipeline, connections, source)
        source = _not_behind(source, tables, connections)
        goal = source.end if goal is None else goal
        paused = progress_of(tables.data).paused if tables else None
        is_free = not (held or paused)
        tried = [left.ranges for left in recovery.left]
        plan = plan_batch(pipeline, connections, source, tables, tried) if tables and is_free else None
        if plan is not None and not _is_due(plan.batch.ranges, goal, pipeline):
            plan = None
        if plan is None or (batches and time.monotonic() >= deadline):
            break
        try:
            for batch in drain_whole_or_halved(
                pipeline, connections, plan, partial(_replan, pipeline, connections)
            ):
                batches.append(batch)
                on_progress(batch)
        except BatchHeld as error:
            _log.warning("%s", error)
            held = recover(pipeline, connections).held
    next_offsets = progress_of(tables.data).next_offsets if tables else {}
    if batches and recovery.left:
        # What was left alone stood at the offsets that have moved now: its files can be swept.
        recovery = recovery.then(recover(pipeline, connections))
    if batches:
        _tell_lag_tools(pipeline, connections, next_offsets)
    return DrainResult(
        pipeline=pipeline.name,
        table=pipeline.table,
        batches=tuple(batches),
        recovery=recovery,
        stopped="paused" if paused else _why_stopped(plan, held),
        lag_records=source.lag(next_offsets),
        next_offsets=next_offsets,
        valid_through_ms=batches[-1].valid_through_ms if batches else None,
        held=held,
        paused=paused,
    )


def _progress(pipeline: PipelineConfig, connections: Connections) -> Progress | None:
    table = load_fresh(connections, pipeline.table)
    return progress_of(table) if table is not None else None


def _not_begun(pipeline: PipelineConfig, progress: Progress) -> DrainResult:
    """A paused pipeline's topic is not even asked: it may be away while it is paused."""
    return DrainResult(
        pipeline=pipeline.name,
        table=pipeline.table,
        batches=(),
        recovery=RecoveryResult(),
        stopped="paused",
        lag_records=0,
        next_offsets=progress.next_offsets,
        valid_through_ms=None,
        paused=progress.paused,
    )


def plan_batch(
    pipeline: PipelineConfig,
    connections: Connections,
    source: SourceState,
    tables: Tables,
    tried: Iterable[OffsetRanges] = (),
    *,
    within: OffsetRanges | None = None,
) -> Plan | None:
    """The next batch, or None when the table has everything up to the last stable offsets.

    ``tried`` are the ranges of attempts that did not finish, oldest first. ``within`` are ranges from the
    table's next offsets on to take instead of all that is there. Raises ``SourceChanged`` when the topic or
    the table is not the one that was drained before and ``OffsetsUnavailable`` when Kafka no longer holds
    the next offset, or what the table has below it.
    """
    table = tables.data
    progress = progress_of(table)
    check_anchor(table)
    ask_leader = partial(cut_below, connections.kafka, progress, source)
    refusal = drain_refusal(progress, source, table=pipeline.table, ask_leader=ask_leader)
    if refusal is not None:
        raise refusal
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


def _replan(pipeline: PipelineConfig, connections: Connections, ranges: OffsetRanges) -> Plan:
    """A batch of exactly these ranges, on the tables as they are now."""
    source = connections.admin.source_state(pipeline.topic)
    tables = ensure_tables(pipeline, connections, source)
    plan = plan_batch(pipeline, connections, source, tables, within=ranges) if tables else None
    if plan is None:
        raise AssertionError("a batch is planned again on a table that it was planned on before")
    return plan


def _why_stopped(plan: Plan | None, held: tuple[HeldBatch, ...]) -> str:
    if held:
        return "held"
    return "caught-up" if plan is None else "budget"


def _is_due(ranges: OffsetRanges, goal: dict[int, int], pipeline: PipelineConfig) -> bool:
    """Whether the ranges still lead to the goal, or what came after it fills a batch of its own."""
    is_below = any(r.start < goal.get(r.partition, r.start) for r in ranges)
    return is_below or ranges.records >= pipeline.max_batch_records


def _not_behind(source: SourceState, tables: Tables | None, connections: Connections) -> SourceState:
    """Ask Kafka again when another run's commit came in between: it must not look like records Kafka lost."""
    if tables is None:
        return source
    reached = progress_of(tables.data).next_offsets
    if all(offset <= source.end.get(partition, offset) for partition, offset in reached.items()):
        return source
    return connections.admin.source_state(source.topic)


def _tell_lag_tools(pipeline: PipelineConfig, connections: Connections, next_offsets: dict[int, int]) -> None:
    """Publish consumer-group offsets for tools that show lag; nothing of Sluice ever reads them."""
    try:
        connections.admin.publish_group_offsets(f"sluice-{pipeline.name}", pipeline.topic, next_offsets)
    except SluiceError as error:
        _log.info("lag tools were not told of %s: %s", pipeline.name, error.message)
