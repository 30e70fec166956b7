"""What bounds the work of one run.

A pool per table with a limit of 1 (the instance's default) keeps two runs from doing the same work; that is a
courtesy, the commit's compare-and-swap is the guard.
"""

from __future__ import annotations

from spark_jobs.config.settings import PipelineConfig

# One process start, about 3 s, is then paid at most every five minutes by a flow that fills batches.
DRAIN_BUDGET_SECONDS = 300.0
# The monitor fails a drain after this: the budget, the batch under way when it ends, start and recovery.
DRAIN_MAX_RUNTIME_SECONDS = 900
OTHER_MAX_RUNTIME_SECONDS = 1800
# Appending to a table; tidying up after that; judging its suites; judging it, which reads beside all others.
DRAIN, UPKEEP, QUALITY, CHECKS = POOLS = ("drain", "upkeep", "quality", "checks")


def pool_of(pipeline: PipelineConfig, pool: str) -> str:
    """Return the name of one of the table's pools."""
    return f"{pool}_{pipeline.table}"


def pools_of(pipeline: PipelineConfig) -> frozenset[str]:
    """Return all pools of the table."""
    return frozenset(pool_of(pipeline, pool) for pool in POOLS)
