"""Fold finished attempts of a pipeline's transaction log into a checkpoint: listing stays cheap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_jobs.core.txlog_checkpoint import summarise
from spark_jobs.io.catalog import close_catalog
from spark_jobs.io.tables import load_table

if TYPE_CHECKING:
    from spark_jobs.core.config import PipelineConfig
    from spark_jobs.io.connections import Connections

# Bounds what is held in memory and the size of one checkpoint object; what is left over is the next one's.
MAX_FOLDED_ATTEMPTS = 1_000


@dataclass(frozen=True, slots=True)
class CheckpointResult:
    """``sequence`` is None when nothing was folded; objects and bytes count checkpoints too."""

    folded_attempts: int
    sequence: int | None
    objects_before: int
    objects_after: int
    bytes_before: int
    bytes_after: int


def checkpoint(pipeline: PipelineConfig, connections: Connections) -> CheckpointResult:
    """Write the finished attempts' lines, then delete their objects.

    Dying in between leaves both; the next checkpoint folds them again and readers count each attempt once.
    Safe beside a drain, a recovery and another checkpoint.
    """
    table_uuid = _table_uuid(pipeline, connections)
    if table_uuid is None:
        return CheckpointResult(0, None, 0, 0, 0, 0)
    log = connections.txlog
    objects_before, bytes_before = log.objects(table_uuid)
    attempts = log.read(table_uuid, log.finished(table_uuid)[:MAX_FOLDED_ATTEMPTS])
    lines = tuple(line for line in map(summarise, attempts) if line is not None)
    if not lines:
        return CheckpointResult(0, None, objects_before, objects_before, bytes_before, bytes_before)
    written = log.write_checkpoint(table_uuid, lines)
    connections.fail_points.reach("checkpoint.after-write")
    log.delete_attempts(table_uuid, (line.attempt for line in lines))
    connections.fail_points.reach("checkpoint.after-delete")
    objects_after, bytes_after = log.objects(table_uuid)
    return CheckpointResult(
        len(lines), written.sequence, objects_before, objects_after, bytes_before, bytes_after
    )


def finished_attempts(pipeline: PipelineConfig, connections: Connections) -> int:
    """How many attempts a checkpoint would fold: one listing, for ``core.txlog_checkpoint.is_due``."""
    table_uuid = _table_uuid(pipeline, connections)
    return 0 if table_uuid is None else len(connections.txlog.finished(table_uuid))


def _table_uuid(pipeline: PipelineConfig, connections: Connections) -> str | None:
    catalog = connections.open_catalog()
    try:
        table = load_table(catalog, pipeline.table)
    finally:
        close_catalog(catalog)
    return None if table is None else str(table.metadata.table_uuid)
