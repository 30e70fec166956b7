"""An operator's act: an empty commit that changes a table's progress, logged with actor and reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from spark_jobs import __version__
from spark_jobs.acts.changes import skip_ranges
from spark_jobs.commit.batch_commit import BatchIntent, ChangeCommit, batch_of_change
from spark_jobs.commit.swap import Committed, land
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import load_drained
from spark_jobs.drain.batch_run import Steps
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.batch import Batch, Pause
from spark_jobs.protocol.commit_summary import actor_summary
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import NO_RANGES, OffsetRanges
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import check_identity
from spark_jobs.protocol.work import Work
from spark_jobs.protocol.works.changes import PAUSE, RESUME, SKIP
from spark_jobs.recovery.recover import recover
from spark_jobs.schema.declared import refuse_newer_format
from spark_jobs.txlog.entries import Entry, FlushComplete, IcebergSnapshotCreated, OffsetCommit

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections


def act(
    pipeline_name: str,
    table: Table,
    connections: Connections,
    kind: Work,
    *,
    reason: str,
    change: Callable[[Progress], Progress],
    ranges: OffsetRanges = NO_RANGES,
) -> Committed:
    """Commit ``change`` of the table's progress in an empty snapshot.

    ``change`` is asked again after every conflict and raises when it does not fit the table any more.
    ``ranges`` are the offsets the act speaks of. Raises ``CommitStateUnknown`` when the outcome could not be
    established (look, then do it again: acts are safe to repeat) and what ``change`` raises.
    """
    batch = batch_of_act(pipeline_name, table, connections, kind, ranges)
    change_commit = ChangeCommit(batch, change, summary_of_act(connections, reason))
    return land_act(connections, table, change_commit, reason)


def batch_of_act(
    pipeline_name: str,
    table: Table,
    connections: Connections,
    kind: Work,
    ranges: OffsetRanges = NO_RANGES,
) -> Batch:
    """Return the batch under which the act is committed and logged."""
    attempt, now_us = connections.new_attempt(), connections.now_us()
    return batch_of_change(table, kind, pipeline=pipeline_name, attempt=attempt, now_us=now_us, ranges=ranges)


def summary_of_act(connections: Connections, reason: str) -> dict[str, str]:
    """Return the actor and reason for the act's commit summary."""
    return actor_summary(connections.actor, connections.run_id, version=__version__, reason=reason)


def land_act(connections: Connections, table: Table, intent: BatchIntent, reason: str) -> Committed:
    """Commit the act between its first and last log entry."""
    refuse_newer_format(table)
    batch, steps, table_uuid = intent.batch, Steps(), str(table.metadata.table_uuid)

    def log(entry: Entry) -> None:
        connections.txlog.append(table_uuid, batch, entry)
        connections.fail_points.reach(f"act.after-{entry.phase.kebab}")

    begun = OffsetCommit(
        batch_id=batch.batch_id,
        spark_session_id=None,
        spark_tag=batch.attempt,
        actor=connections.actor,
        run_id=connections.run_id,
        sluice_version=__version__,
        started_at_us=batch.ingested_at_us,
        reason=reason,
    )
    log(begun)
    with steps.step("commit"):
        committed = land(connections, intent)
    log(IcebergSnapshotCreated(committed.snapshot_id, connections.run_id, connections.now_us()))
    log(FlushComplete(steps.durations_ms, None, connections.run_id, connections.now_us()))
    return committed


# Pausing a pipeline: kept in its table, so that it holds whatever runs the drains or is rebuilt.


def pause(pipeline: PipelineConfig, connections: Connections, *, reason: str) -> Pause:
    """Stop drains before their next batch; upkeep and replays go on.

    Paused already, the new reason and actor take the place of the old ones. Raises ``ConfigError`` without a
    table and what ``act`` raises.
    """
    paused = Pause(reason, connections.actor, connections.now_us() // 1000)
    table = load_drained(pipeline, connections)
    change = partial(replace, paused=paused)
    act(pipeline.name, table, connections, PAUSE, reason=reason, change=change)
    return paused


def resume(pipeline: PipelineConfig, connections: Connections, *, reason: str) -> Pause | None:
    """Let drains continue; return the pause that ended, None without one: then nothing is committed.

    Raises as ``pause``.
    """
    table = load_drained(pipeline, connections)
    paused = progress_of(table).paused
    if paused is not None:
        change = partial(replace, paused=None)
        act(pipeline.name, table, connections, RESUME, reason=reason, change=change)
    return paused


# What earlier runs left, settled before an act that fences it for ever.


def settle(pipeline: PipelineConfig, connections: Connections, *, then: str) -> None:
    """Settle unfinished batches of drains, which the act ``then`` would fence.

    A batch that was verified whole may be the only copy of its records by now. Asks Kafka nothing. Raises
    ``BatchHeld`` and ``ConfigError`` (``paused``) for one that waits for an operator's word, and what
    recovery raises.
    """
    settled = recover(pipeline, connections)
    if settled.held:
        held = settled.held[0]
        raise fault(
            "batch-held.earlier",
            why=held.sentence,
            then=then,
            pipeline=pipeline.name,
            batch=held.batch.batch_id,
        )
    if settled.left and progress_of(load_drained(pipeline, connections)).paused is not None:
        raise fault("paused", then=then, pipeline=pipeline.name)


# Skipping offsets: the way past a record that cannot be drained, or past what Kafka has lost.


def skip(
    pipeline: PipelineConfig, connections: Connections, ranges: OffsetRanges, *, reason: str
) -> Committed:
    """Move the table past ``ranges`` without their records, recorded as skipped in one commit.

    Each range begins at its partition's next offset and ends within the topic. Raises ``ConfigError``
    (``not-next-offset``, ``beyond-the-end``) otherwise, also when a drain was faster, ``SourceChanged``, and
    what ``act`` raises.
    """
    table = load_drained(pipeline, connections)
    source = connections.admin.source_state(pipeline.topic)
    check_identity(progress_of(table), source, table=pipeline.table)
    for part in ranges:
        end = source.end.get(part.partition)
        if end is None or not part.start < part.end <= end:
            raise fault(
                "beyond-the-end.partition" if end is None else "beyond-the-end.offset",
                part=part,
                number=part.partition,
                end=end,
                pipeline=pipeline.name,
                topic=source.topic,
            )

    def change(progress: Progress) -> Progress:
        positions = source.positions(progress.next_offsets)
        for part in ranges:
            next_offset = positions[part.partition]
            if part.start != next_offset:
                raise fault(
                    "not-next-offset.drained" if part.start < next_offset else "not-next-offset.ahead",
                    number=part.partition,
                    next=next_offset,
                    start=part.start,
                    **pipeline.where,
                )
        return skip_ranges(progress, ranges, reason)

    change(progress_of(table))  # before anything is logged
    return act(pipeline.name, table, connections, SKIP, reason=reason, change=change, ranges=ranges)
