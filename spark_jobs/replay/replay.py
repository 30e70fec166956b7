"""Drains offset ranges again by today's configuration and replaces their earlier rows.

Each batch goes through the six phases of a drain. Its commit replaces exactly the rows and dead letters of
its offsets and moves no offset, so it needs another fence: the table's replay epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_jobs.acts.act import act
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import load_fresh
from spark_jobs.drain.batch_run import BatchResult, BatchRun, CommittedBatches
from spark_jobs.drain.drain_batch import drain_batch, plan_of
from spark_jobs.drain.planning import bytes_per_record
from spark_jobs.drain.table_columns import ensure_tables
from spark_jobs.lake.tables import progress_of
from spark_jobs.notices.sender import NoticeSender
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import has_passed
from spark_jobs.protocol.work import Settler
from spark_jobs.protocol.works.changes import CANCEL
from spark_jobs.protocol.works.replay import REPLAY
from spark_jobs.recovery.decide import RecoveryResult, attempts_of
from spark_jobs.recovery.recover import settle_replays
from spark_jobs.replay.plan import plan_replay
from spark_jobs.replay.ranges import cut_into_batches
from spark_jobs.txlog.entries import Attempt

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections


@dataclass(frozen=True, slots=True)
class ReplayResult(CommittedBatches):
    """The result of a replay, one commit per batch."""

    pipeline: str
    table: str
    ranges: tuple[OffsetRange, ...]
    ahead: tuple[OffsetRange, ...]
    batches: tuple[BatchResult, ...]
    recovery: RecoveryResult


def replay(
    pipeline: PipelineConfig,
    connections: Connections,
    ranges: Sequence[OffsetRange],
    *,
    reason: str,
    force: bool = False,
    on_progress: Callable[[BatchResult, int, int], None] = lambda _batch, _done, _all: None,
) -> ReplayResult:
    """Replace rows and dead letters of ``ranges`` by decoding the records again.

    ``on_progress`` gets each committed batch, the offsets done and in all. Safe beside drains and upkeep, and
    to repeat: killed anywhere, what was committed stays, and a second run does all ranges again. Raises what
    ``plan_replay`` raises and every kind of ``SluiceError``; ``CommitConflict`` when another replay of the
    table came first; ``OffsetsUnavailable`` (``replay-would-lose``) when Kafka no longer holds the records of
    rows that are there, unless ``force`` lets these go.
    """
    recovery = settle_left_replays(pipeline, connections)
    planned = plan_replay(pipeline, connections, ranges)
    record_bytes = bytes_per_record(progress_of(planned.table).last_drain)
    room = max(1, min(pipeline.max_batch_records, pipeline.max_batch_bytes // record_bytes))
    batches: list[BatchResult] = []
    done = 0
    with NoticeSender(pipeline, connections) as notices:
        for part in cut_into_batches(planned.ranges, room):
            run = replace(_plan_batch(pipeline, connections, part, reason), may_lose=force)
            batches.append(drain_batch(run)[0])
            notices.notify()
            done += part.records
            on_progress(batches[-1], done, planned.records)
    return ReplayResult(
        pipeline.name, pipeline.table, planned.ranges, planned.ahead, tuple(batches), recovery
    )


def _plan_batch(
    pipeline: PipelineConfig, connections: Connections, ranges: OffsetRanges, reason: str
) -> BatchRun:
    """Return one batch, for the current table and topic."""
    planned = plan_replay(pipeline, connections, tuple(ranges))
    tables = ensure_tables(pipeline, connections, planned.source, REPLAY)
    if tables is None:
        raise AssertionError("the table existed a moment ago")
    return plan_of(pipeline, connections, tables, planned.source, ranges, work=REPLAY, reason=reason)


# What a replay that died left behind: finished when it landed, else given up and swept.
#
# Drains leave replays alone: one may be alive beside them, and none stands in their way.


def settle_left_replays(
    pipeline: PipelineConfig, connections: Connections, *, before_us: int | None = None
) -> RecoveryResult:
    """Settle every unfinished replay of the table, or those planned before a time (µs since the epoch).

    One that could still land is given up first, by a commit that raises the table's epoch: from then on its
    own is refused, wherever it is, and its files can be deleted. Safe to repeat and beside drains; a replay
    that is alive ends with ``replay-overtaken``. Errors as ``recover``.
    """
    table = load_fresh(connections, pipeline.table)
    if table is None:
        return RecoveryResult()
    unfinished = connections.txlog.unfinished(str(table.metadata.table_uuid), now_us=connections.now_us())
    replays = attempts_of(Settler.REPLAY, unfinished)
    attempts = [a for a in replays if before_us is None or a.started_at_us < before_us]
    if not attempts:
        return RecoveryResult()
    _give_up(pipeline, connections, table, attempts)
    return settle_replays(pipeline, connections, attempts)


def _give_up(
    pipeline: PipelineConfig, connections: Connections, table: Table, attempts: list[Attempt]
) -> None:
    progress = progress_of(table)
    alive = [a.uuid for a in attempts if a.batch is not None and not has_passed(progress, a.batch)]
    alive = [uuid for uuid in alive if not progress.has_landed(uuid)]
    if not alive:
        return

    def raise_epoch(now: Progress) -> Progress:
        # Whoever raised it meanwhile has fenced them as well.
        is_fenced = now.replay_epoch > progress.replay_epoch
        return now if is_fenced else replace(now, replay_epoch=now.replay_epoch + 1)

    reason = f"replays that did not finish: {', '.join(alive)}"
    act(pipeline.name, table, connections, CANCEL, reason=reason, change=raise_epoch)
