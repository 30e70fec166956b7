"""The kinds of upkeep by name: one call for the assets and the command line, and what is due now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.books.entries import is_due
from spark_jobs.connections.tables import load_fresh
from spark_jobs.upkeep.compact import compact
from spark_jobs.upkeep.conditions import Due, UpkeepKind, due_upkeep
from spark_jobs.upkeep.expire_snapshots import expire_snapshots
from spark_jobs.upkeep.read_figures import table_figures
from spark_jobs.upkeep.remove_orphans import remove_orphans
from spark_jobs.upkeep.rewrite_manifests import rewrite_manifests
from spark_jobs.upkeep.upkeep import tables_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.connections.connect import Connections
    from spark_jobs.upkeep.upkeep import UpkeepResult


def run_upkeep(
    kind: UpkeepKind, pipeline: PipelineConfig, connections: Connections, say: Callable[[str], None]
) -> UpkeepResult:
    """Do one kind of upkeep now, whether or not it is due. Raises every kind of ``SluiceError``."""
    if kind is UpkeepKind.COMPACTION:
        return compact(pipeline, connections, say=say)
    if kind is UpkeepKind.SNAPSHOTS:
        return expire_snapshots(pipeline, connections, say=say)
    if kind is UpkeepKind.MANIFESTS:
        return rewrite_manifests(pipeline, connections, say=say)
    return remove_orphans(pipeline, connections, say=say)


def upkeep_due(
    pipeline: PipelineConfig, connections: Connections, *, seconds_since_orphans: float | None = None
) -> tuple[Due, ...]:
    """What the pipeline's tables are due for as they stand now, in the order in which it is best done."""
    tables = [table for name in tables_of(pipeline) if (table := load_fresh(connections, name)) is not None]
    return due_upkeep(
        [table_figures(table) for table in tables],
        pipeline.upkeep,
        now_ms=connections.now_us() // 1000,
        seconds_since_orphans=seconds_since_orphans,
    )


def log_due(pipeline: PipelineConfig, connections: Connections) -> str | None:
    """Why the pipeline's transaction log should be folded now, or None."""
    table = load_fresh(connections, pipeline.table)
    finished = len(connections.txlog.finished(str(table.metadata.table_uuid))) if table else 0
    return f"{finished:,} finished attempts" if is_due(finished) else None
