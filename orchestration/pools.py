"""Makes a pool's limit known to Dagster before the pool's first run is queued.

Dagster (1.13) gives a pool the default limit when it first meets it in the queue, but that first look still
lets every run go that waits for it: both windows of a first backfill ran at once, and the second took the
first for dead.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from assets.limits import pools_of
from spark_jobs.config.settings import PipelineConfig

if TYPE_CHECKING:
    from dagster import DagsterInstance


def announce_pools(instance: DagsterInstance, pipelines: Iterable[PipelineConfig]) -> None:
    """Give each pool that the instance has not met its default limit; one query when there is none."""
    storage = instance.event_log_storage
    if not storage.supports_global_concurrency_limits or not instance.global_op_concurrency_default_limit:
        return
    pools = {pool for pipeline in pipelines for pool in pools_of(pipeline)}
    for pool in sorted(pools - storage.get_concurrency_keys()):
        storage.initialize_concurrency_limit_to_default(pool)
