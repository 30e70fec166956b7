"""Drain offset ranges again with today's configuration and put their rows in the place of the earlier ones.

Each batch goes through the six phases of a drain. Its commit replaces exactly the rows and dead letters of
its offsets and moves no offset, so it needs another fence: the table's replay epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.drain.batch_plan import plan_of
from spark_jobs.drain.batch_run import BatchResult, BatchRun, CommittedBatches
from spark_jobs.drain.drain_batch import drain_batch
from spark_jobs.drain.planning import bytes_per_record
from spark_jobs.drain.table_columns import ensure_tables
from spark_jobs.lake.tables import progress_of
from spark_jobs.notices.sender import NoticeSender
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.protocol.works.replay import REPLAY
from spark_jobs.recovery.recovered import RecoveryResult
from spark_jobs.replay.plan import plan_replay
from spark_jobs.replay.ranges import cut_into_batches
from spark_jobs.replay.settle import settle_left_replays

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections


@dataclass(frozen=True, slots=True)
class ReplayResult(CommittedBatches):
    """What one replay did, one commit a batch."""

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
    """Replace the rows and dead letters of ``ranges`` by what today's configuration makes of the records.

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
            notices.tell()
            done += part.records
            on_progress(batches[-1], done, planned.records)
    return ReplayResult(
        pipeline.name, pipeline.table, planned.ranges, planned.ahead, tuple(batches), recovery
    )


def _plan_batch(
    pipeline: PipelineConfig, connections: Connections, ranges: OffsetRanges, reason: str
) -> BatchRun:
    """One batch, on the table and the topic as they are now."""
    planned = plan_replay(pipeline, connections, tuple(ranges))
    tables = ensure_tables(pipeline, connections, planned.source, REPLAY)
    if tables is None:
        raise AssertionError("the table was there a moment ago")
    return plan_of(pipeline, connections, tables, planned.source, ranges, work=REPLAY, reason=reason)
