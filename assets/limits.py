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
UPKEEP_MAX_RUNTIME_SECONDS = 1800
CHECKS_MAX_RUNTIME_SECONDS = 1800
QUALITY_MAX_RUNTIME_SECONDS = 1800


def drain_pool(pipeline: PipelineConfig) -> str:
    """Return the pool of the runs that append to the table."""
    return f"drain_{pipeline.table}"


def upkeep_pool(pipeline: PipelineConfig) -> str:
    """Return the pool of the runs that tidy up after the table's drains."""
    return f"upkeep_{pipeline.table}"


def quality_pool(pipeline: PipelineConfig) -> str:
    """Return the pool of the runs that judge the table's suites."""
    return f"quality_{pipeline.table}"


def checks_pool(pipeline: PipelineConfig) -> str:
    """Return the pool of the runs that judge the table; they read beside drains and upkeep."""
    return f"checks_{pipeline.table}"


def pools_of(pipeline: PipelineConfig) -> frozenset[str]:
    """Return all pools of the table."""
    return frozenset(pool(pipeline) for pool in (drain_pool, upkeep_pool, quality_pool, checks_pool))
