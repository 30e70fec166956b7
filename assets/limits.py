"""What bounds the work of one run.

A pool per table with a limit of 1 (the instance's default) keeps two runs from doing the same work; that is a
courtesy, the commit's compare-and-swap is the guard. Runs that start Spark in their own process, each a JVM
sized for the whole machine, share one pool instead.
"""

from __future__ import annotations

from collections.abc import Mapping

from spark_jobs.config.settings import PipelineConfig

TAG_MAX_RUNTIME = "dagster/max_runtime"
# The monitor fails a drain after this: the budget, the batch under way when it ends, start and recovery. One
# process start, about 3 s, is paid at most every five minutes (the budget) by a flow that fills batches.
DRAIN_MAX_RUNTIME_SECONDS = 900
DRAIN_RESERVE_SECONDS = 600
# Nobody asks again between two ticks of a schedule: its drain goes on until it has caught up.
SCHEDULED_DRAIN_MAX_RUNTIME_SECONDS = 6 * 3600
OTHER_MAX_RUNTIME_SECONDS = 1800
# Of what makes rows again, which takes as long as there are rows; it can be cancelled.
NO_END = "0"
# Appending to a table; tidying up after that; judging its suites; judging it, which reads beside all others.
DRAIN, UPKEEP, QUALITY, CHECKS = POOLS = ("drain", "upkeep", "quality", "checks")
LOCAL_SPARK = "local_spark"


def drain_budget_seconds(run_tags: Mapping[str, str]) -> float:
    """Return for how long a drain begins batches, within what the monitor gives its run."""
    given = float(run_tags.get(TAG_MAX_RUNTIME, DRAIN_MAX_RUNTIME_SECONDS))
    return max(0.0, given - DRAIN_RESERVE_SECONDS)


def pool_of(pipeline: PipelineConfig, pool: str, *, is_local: bool = False) -> str:
    """Return the name of one of the table's pools; ``is_local`` work with Spark is in the machine's."""
    return LOCAL_SPARK if is_local and pool in {DRAIN, UPKEEP} else f"{pool}_{pipeline.table}"


def pools_of(pipeline: PipelineConfig) -> frozenset[str]:
    """Return all pools that the table's work may be in."""
    return frozenset(pool_of(pipeline, pool) for pool in POOLS) | {LOCAL_SPARK}
