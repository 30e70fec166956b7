"""The jobs that sensors and people start. Steps run in the run's own process: a second one costs seconds."""

from __future__ import annotations

from dagster import AssetSelection, define_asset_job, in_process_executor

from assets.failures import NO_RETRY_TAGS
from assets.keys import GROUP_TABLES, GROUP_UPKEEP
from assets.limits import DRAIN_MAX_RUNTIME_SECONDS, UPKEEP_MAX_RUNTIME_SECONDS

TAG_MAX_RUNTIME = "dagster/max_runtime"

drain_job = define_asset_job(
    "drain",
    AssetSelection.groups(GROUP_TABLES).without_checks(),
    description="Drains the selected pipelines until they have caught up or the time budget is used.",
    tags={TAG_MAX_RUNTIME: str(DRAIN_MAX_RUNTIME_SECONDS), **NO_RETRY_TAGS},
    executor_def=in_process_executor,
)

upkeep_job = define_asset_job(
    "upkeep",
    AssetSelection.groups(GROUP_UPKEEP),
    description="Does the selected upkeep: compaction, snapshots, manifests, orphans, transaction logs.",
    tags={TAG_MAX_RUNTIME: str(UPKEEP_MAX_RUNTIME_SECONDS), **NO_RETRY_TAGS},
    executor_def=in_process_executor,
)
