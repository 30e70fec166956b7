"""What a pipeline's tables and its transaction log are due for, as they stand now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spark_jobs.books.entries import is_due
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.tables import load_fresh
from spark_jobs.upkeep.kind import Due
from spark_jobs.upkeep.read_figures import table_figures
from spark_jobs.upkeep.registry import due_upkeep
from spark_jobs.upkeep.upkeep import tables_of

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections


def upkeep_due(
    pipeline: PipelineConfig, connections: Connections, seconds_since: Mapping[str, float] | None = None
) -> tuple[Due, ...]:
    """Return what the pipeline's tables are due for, in the order in which it is best done.

    ``seconds_since`` is as for ``due_upkeep``; without it what goes by the clock is due.
    """
    found = (load_fresh(connections, name) for name in tables_of(pipeline, connections))
    return due_upkeep(
        [table_figures(table) for table in found if table is not None],
        pipeline.upkeep,
        now_ms=connections.now_us() // 1000,
        seconds_since=seconds_since or {},
    )


def log_due(pipeline: PipelineConfig, connections: Connections) -> str | None:
    """Return why the pipeline's transaction log should be folded now, or None."""
    table = load_fresh(connections, pipeline.table)
    finished = len(connections.txlog.finished(str(table.metadata.table_uuid))) if table else 0
    return f"{finished:,} finished attempts" if is_due(finished) else None
