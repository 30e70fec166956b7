"""Drains a topic into its table, one commit per batch, until caught up or out of budget.

What one batch goes through is in ``spark_jobs.drain.drain_batch``; what a task does in
``spark_jobs.drain.split_task``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import load_fresh
from spark_jobs.drain.batch_run import BatchResult, BatchRun, CommittedBatches, Tables
from spark_jobs.drain.drain_batch import drain_batch, plan_batch
from spark_jobs.drain.planning import first_half, rest
from spark_jobs.drain.table_columns import ensure_tables
from spark_jobs.lake.tables import progress_of
from spark_jobs.notices.sender import NoticeSender
from spark_jobs.protocol import mends
from spark_jobs.protocol.batch import Batch, Pause, add_ignored, counts, paused_line
from spark_jobs.protocol.errors import BatchHeld, RetryableError, SluiceError, fault
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.protocol.source import SourceState, held_back
from spark_jobs.protocol.texts import count, seconds
from spark_jobs.recovery.decide import HeldBatch, RecoveryResult
from spark_jobs.recovery.recover import recover
from spark_jobs.spark.tasks import is_crash

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from spark_jobs.commit.swap import Committed
    from spark_jobs.connections.connect import Connections


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DrainResult(CommittedBatches):
    """The result of one run; ``lag_records`` are left or new, 0 if it was paused before it looked.

    ``undecided`` is what an open transaction holds back beyond that.
    ``stopped`` is "caught-up", "budget", "paused" by an operator, or "held": a batch failed a quality gate,
    and those after it wait. ``metadata`` is the table's as the run saw it last, None while there is none.
    """

    pipeline: str
    table: str
    stopped: str
    metadata: TableMetadata | None = field(repr=False)
    paused: Pause | None = None
    next_offsets: dict[int, int] = field(default_factory=dict)
    lag_records: int = 0
    undecided: int = 0
    batches: tuple[BatchResult, ...] = ()
    recovery: RecoveryResult = field(default_factory=RecoveryResult)
    held: tuple[HeldBatch, ...] = ()

    @property
    def ignored(self) -> dict[str, int]:
        """Ignored field values by name, over the run's batches."""
        counted: dict[str, int] = {}
        for batch in self.batches:
            counted = add_ignored(counted, batch.ignored)
        return counted

    @property
    def valid_through_ms(self) -> int | None:
        """Record time up to which the table is complete after the last batch, ms since the epoch."""
        return self.batches[-1].valid_through_ms if self.batches else None


def drain(
    pipeline: PipelineConfig,
    connections: Connections,
    *,
    budget_seconds: float,
    on_progress: Callable[[BatchResult], None],
) -> DrainResult:
    """Recover earlier runs' work, then commit batches up to the topic's end at the start of the run.

    What arrives meanwhile is taken along by the last batch, and by further ones only when it fills them: a
    steady flow would otherwise be committed in ever smaller files for as long as the budget lasts.
    ``on_progress`` is called after each commit. Safe to run again at any time and beside another run of the
    same pipeline: the one whose commit comes second gets ``CommitConflict``. A pause stops it before the
    next batch. Raises every kind of ``SluiceError``; what was committed before stays committed.
    """
    with NoticeSender(pipeline, connections) as notices:

        def committed(batch: BatchResult) -> None:
            notices.notify()
            on_progress(batch)

        return _drain(pipeline, connections, budget_seconds, committed)


def _drain(
    pipeline: PipelineConfig,
    connections: Connections,
    budget_seconds: float,
    on_progress: Callable[[BatchResult], None],
) -> DrainResult:
    table = load_fresh(connections, pipeline.table)
    if table is not None and (progress := progress_of(table)).paused:
        # Its topic is not even asked: it may be away while the pipeline is paused.
        return DrainResult(
            pipeline.name, pipeline.table, "paused", table.metadata, progress.paused, progress.next_offsets
        )
    deadline = time.monotonic() + budget_seconds
    recovery = recover(pipeline, connections)
    batches: list[BatchResult] = []
    last: Committed | None = None
    goal: dict[int, int] | None = None
    held = recovery.held
    tried = [left.ranges for left in recovery.left]
    while True:
        look = _look(pipeline, connections, last)
        goal = look.source.end if goal is None else goal
        run = None if held else _next_batch(pipeline, connections, look, tried, goal)
        if run is None or (batches and time.monotonic() >= deadline):
            break
        try:
            for batch, committed in drain_whole_or_halved(run, partial(_replan, pipeline, connections)):
                batches.append(batch)
                last = committed
                on_progress(batch)
        except RetryableError as error:
            if error.code != "change-not-told-yet" or not tried:
                raise
            tried = []  # an earlier run had cut the batch short there; by now the whole may tell it
        except BatchHeld as error:
            _log.warning("%s", error)
            held = recover(pipeline, connections).held
    if batches and recovery.left:
        # What was left alone stood at the offsets that have moved now: its files can be swept.
        recovery = recovery.then(recover(pipeline, connections))
    if batches:
        _publish_group_offsets(pipeline, connections, look.next_offsets)
    stopped = "held" if held else "caught-up" if run is None else "budget"
    return DrainResult(
        pipeline.name,
        pipeline.table,
        "paused" if look.paused else stopped,
        look.metadata,
        look.paused,
        look.next_offsets,
        look.source.lag(look.next_offsets),
        sum(look.source.undecided.values()),
        tuple(batches),
        recovery,
        held,
    )


@dataclass(frozen=True, slots=True)
class _Look:
    """Topic and tables before the next batch; ``tables`` are None if there is nothing to drain."""

    source: SourceState
    tables: Tables | None
    metadata: TableMetadata | None
    paused: Pause | None = None
    next_offsets: dict[int, int] = field(default_factory=dict)


def _look(pipeline: PipelineConfig, connections: Connections, last: Committed | None) -> _Look:
    """Look at the topic, and at the tables unless the last commit returned them."""
    source = connections.admin.source_state(pipeline.topic)
    if last is not None and not source.lag(last.progress.next_offsets):
        return _Look(source, None, last.metadata, last.progress.paused, last.progress.next_offsets)
    tables = ensure_tables(pipeline, connections, source)
    if tables is None:
        return _Look(source, None, None)
    progress = progress_of(tables.data)
    if any(offset > source.end.get(p, offset) for p, offset in progress.next_offsets.items()):
        # Another run's commit came in between: it must not look like records Kafka lost.
        source = connections.admin.source_state(pipeline.topic)
    return _Look(source, tables, tables.data.metadata, progress.paused, progress.next_offsets)


def _next_batch(
    pipeline: PipelineConfig,
    connections: Connections,
    look: _Look,
    tried: list[OffsetRanges],
    goal: dict[int, int],
) -> BatchRun | None:
    if not look.tables or look.paused:
        return None
    run = plan_batch(pipeline, connections, look.source, look.tables, tried)
    return run if run is not None and _is_due(run.batch.ranges, goal, pipeline) else None


def _replan(pipeline: PipelineConfig, connections: Connections, ranges: OffsetRanges) -> BatchRun:
    """Return a batch of exactly these ranges, on the current tables."""
    source = connections.admin.source_state(pipeline.topic)
    tables = ensure_tables(pipeline, connections, source)
    run = plan_batch(pipeline, connections, source, tables, within=ranges) if tables else None
    if run is None:
        raise AssertionError("a batch is planned again on a table that it was planned on before")
    return run


def _is_due(ranges: OffsetRanges, goal: dict[int, int], pipeline: PipelineConfig) -> bool:
    """True if the ranges lead to the goal, or later records fill a whole batch."""
    is_below = any(r.start < goal.get(r.partition, r.start) for r in ranges)
    return is_below or ranges.records >= pipeline.max_batch_records


def _publish_group_offsets(
    pipeline: PipelineConfig, connections: Connections, next_offsets: dict[int, int]
) -> None:
    """Publish consumer-group offsets for tools that show lag; Sluice never reads them."""
    try:
        connections.admin.publish_group_offsets(f"sluice-{pipeline.name}", pipeline.topic, next_offsets)
    except SluiceError as error:
        _log.info("the offsets for lag tools were not published for %s: %s", pipeline.name, error.message)


# What is before a record that stops a batch is committed, so that an operator can go on behind that record.
#
# An error may say which record it was. A worker that is killed (a segmentation fault, memory) takes its
# outcome with it: so halves are run, good ones are committed, and the record that dies alone is named.


def drain_whole_or_halved(
    run: BatchRun, replan: Callable[[OffsetRanges], BatchRun]
) -> Iterator[tuple[BatchResult, Committed]]:
    """Commit the planned batch; if a record stops it, commit everything before that record.

    Yields what was committed, one result normally. ``replan`` plans given ranges on the table as it is then.
    Raises ``BadRecord`` (``poison-record``) for a record whose task dies when it is read alone, and every
    kind of ``SluiceError`` as ``drain_batch``; one that a later look may not meet ends the batch alone.
    """
    try:
        yield from _drain_or_halve(run, replan)
    except SluiceError as error:
        if not error.before:
            raise
        yield from drain_whole_or_halved(replan(error.before), replan)
        if not error.is_retryable:
            raise


def _drain_or_halve(
    run: BatchRun, replan: Callable[[OffsetRanges], BatchRun]
) -> Iterator[tuple[BatchResult, Committed]]:
    suspects = run.batch.ranges
    batch = _drain_unless_it_dies(run)
    if batch is not None:
        yield batch
        return
    while suspects:
        tried = first_half(suspects)
        _log.warning("a task crashed in %s of %s: trying %s separately", suspects, run.batch.topic, tried)
        batch = _drain_unless_it_dies(replan(tried))
        if batch is None:
            suspects = tried
        else:
            yield batch
            suspects = rest(suspects, tried)


def _drain_unless_it_dies(run: BatchRun) -> tuple[BatchResult, Committed] | None:
    try:
        return drain_batch(run)
    except SluiceError as error:
        if not is_crash(error):
            raise
        if run.batch.ranges.records == 1:
            raise _poison(run.batch, error) from error
        return None


def _poison(batch: Batch, error: SluiceError) -> SluiceError:
    (record,) = (r for r in batch.ranges if len(r))
    return fault(
        "poison-record",
        at=str(record),
        pipeline=batch.pipeline,
        topic=batch.topic,
        partition=record.partition,
        offset=record.start,
        cause=error.message,
    )


# What a drain says in the end: the same words in a terminal and in Dagster's log.


def ended_line(result: DrainResult, milliseconds: float) -> str:
    """Return the log line of a drain's end, even without any work; the time is the run's."""
    batches = count(len(result.batches), "batch", "batches")
    if result.paused is not None:
        return f"{batches} drained; {paused_line(result.paused)} ({mends.resume(result.pipeline)})"
    lag = f"lag {count(result.lag_records, 'record')}"
    if result.undecided:
        lag += f", {held_back(result.undecided)}"
    if result.held:
        return f"{result.held[0].tell(result.pipeline)}; {lag}"
    if not (result.batches or result.recovery.adopted):
        if not result.next_offsets:
            return f"nothing to do: the topic has no record yet, so table {result.table} was not created"
        return f"nothing to do: {result.table} has everything up to the topic's last stable offsets; {lag}"
    named = result.dead_letter_phases, result.filtered_reasons, result.routed_tables
    adopted = f"{count(len(result.recovery.adopted), 'batch', 'batches')} adopted, "
    return (
        f"{result.stopped}: {adopted if result.recovery.adopted else ''}{batches} of"
        f" {count(result.balance.records, 'record')} drained in {seconds(milliseconds)}"
        f" ({counts(result.balance, *named)}); {lag}"
    )
