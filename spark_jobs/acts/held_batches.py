"""Acts on batches that failed a quality gate: list, publish, discard.

A held batch is an unfinished attempt of the transaction log. Nothing is moved or copied: publishing commits
its files where they are, discarding moves the table past its offsets, after which they are swept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.acts.act import act
from spark_jobs.acts.changes import skip_ranges
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import load_fresh
from spark_jobs.lake.tables import progress_of
from spark_jobs.notices.sender import send_pending
from spark_jobs.protocol.batch import Batch
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import stands_at_starts
from spark_jobs.protocol.works.changes import DISCARD
from spark_jobs.recovery.decide import AdoptedBatch, HeldBatch, held_batch
from spark_jobs.recovery.recover import recover
from spark_jobs.txlog.entries import Attempt, IcebergSnapshotCreated, ParquetWritten, Published, is_waiting

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.connections.connect import Connections


def held_batches(pipeline: PipelineConfig, connections: Connections) -> tuple[HeldBatch, ...]:
    """Return the batches that wait for a decision, oldest first; reads only."""
    table = load_fresh(connections, pipeline.table)
    return tuple(held_batch(*each) for each in _waiting(table, connections)) if table else ()


def publish(
    pipeline: PipelineConfig, connections: Connections, *, reason: str, attempt: str | None = None
) -> AdoptedBatch:
    """Commit a held batch unchanged. If this is interrupted, the next recovery finishes it.

    A drain that runs may commit it first, which is the same.

    ``attempt`` may be left out when only one is held. Raises ``ConfigError`` (``nothing-held``,
    ``several-held``), ``CommitConflict`` when the table moved on meanwhile, and what recovery raises.
    """
    table, chosen, batch = _choose(pipeline, connections, attempt)
    word = Published(reason, connections.actor, connections.run_id, connections.now_us())
    connections.txlog.append(chosen.table_uuid, batch, word, reached=chosen.reached)
    connections.fail_points.reach("held.after-published")
    result = recover(pipeline, connections)
    send_pending(pipeline, connections)
    landed = _landed(connections, chosen)
    if landed is None:
        why = next((left.reason for left in result.left if left.attempt == chosen.uuid), "it was settled")
        raise fault(
            "held-not-published",
            why=why,
            owner=pipeline.name,
            table=".".join(table.name()),
            attempt=chosen.uuid,
        )
    return landed


def discard(
    pipeline: PipelineConfig, connections: Connections, *, reason: str, attempt: str | None = None
) -> HeldBatch:
    """Move the table past a held batch without its records, recorded as skipped with the reason.

    Errors as ``publish``.
    """
    table, chosen, batch = _choose(pipeline, connections, attempt)

    def change(progress: Progress) -> Progress:
        if not stands_at_starts(progress, batch):
            raise fault("held-settled", owner=pipeline.name, table=batch.table, attempt=batch.attempt)
        return skip_ranges(progress, batch.ranges, f"discarded: {reason}")

    discarded = held_batch(chosen, batch)
    kind, ranges = DISCARD, batch.ranges
    act(pipeline.name, table, connections, kind, reason=reason, change=change, ranges=ranges)
    recover(pipeline, connections)
    return discarded


def _landed(connections: Connections, chosen: Attempt) -> AdoptedBatch | None:
    """Return the batch as recorded in the log, regardless of who committed it."""
    for attempt in connections.txlog.read(chosen.table_uuid, [chosen.uuid]):
        written, created = attempt.entry(ParquetWritten), attempt.entry(IcebergSnapshotCreated)
        if attempt.batch and written and created and created.snapshot_id is not None:
            return AdoptedBatch(attempt.batch, written.counts, created.snapshot_id)
    return None


def _choose(
    pipeline: PipelineConfig, connections: Connections, attempt: str | None
) -> tuple[Table, Attempt, Batch]:
    table = load_fresh(connections, pipeline.table)
    waiting = _waiting(table, connections) if table else []
    chosen = [each for each in waiting if attempt is None or each[0].uuid == attempt]
    if table is None or not chosen:
        raise fault(
            "nothing-held" if attempt is None else "nothing-held.of-attempt",
            uuid=attempt,
            pipeline=pipeline.name,
        )
    if len(chosen) > 1:
        raise fault("several-held", count=len(chosen), pipeline=pipeline.name)
    return table, *chosen[0]


def _waiting(table: Table, connections: Connections) -> list[tuple[Attempt, Batch]]:
    progress = progress_of(table)
    unfinished = connections.txlog.unfinished(str(table.metadata.table_uuid), now_us=connections.now_us())
    return [(each, each.batch) for each in unfinished if each.batch and is_waiting(each, progress)]
