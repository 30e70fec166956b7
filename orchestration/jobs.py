"""The jobs that sensors, schedules and people start: bounded in time, and never retried by Dagster.

Their steps run in the run's own process (`Definitions(executor=...)`): a second one costs seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dagster import AssetSelection, define_asset_job

from assets.failures import NO_RETRY_TAGS
from assets.keys import GROUP_TABLES, GROUP_UPKEEP
from assets.limits import (
    CHECKS_MAX_RUNTIME_SECONDS,
    DRAIN_MAX_RUNTIME_SECONDS,
    QUALITY_MAX_RUNTIME_SECONDS,
    UPKEEP_MAX_RUNTIME_SECONDS,
)

if TYPE_CHECKING:
    from dagster import AssetChecksDefinition
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

CHECKS = "checks"
QUALITY = "quality"


def run_tags(max_runtime_seconds: int) -> dict[str, str]:
    """Return the tags of a run that the monitor fails after so long and that no Dagster mechanism retries."""
    return {"dagster/max_runtime": str(max_runtime_seconds), **NO_RETRY_TAGS}


drain_job = define_asset_job(
    "drain",
    AssetSelection.groups(GROUP_TABLES).without_checks(),
    description="Drains the selected pipelines until they have caught up or the time budget is used.",
    tags=run_tags(DRAIN_MAX_RUNTIME_SECONDS),
)

upkeep_job = define_asset_job(
    "upkeep",
    AssetSelection.groups(GROUP_UPKEEP),
    description="Does the selected upkeep: compaction, snapshots, manifests, orphans, transaction logs.",
    tags=run_tags(UPKEEP_MAX_RUNTIME_SECONDS),
)


def checks_job(checks: Sequence[AssetChecksDefinition]) -> UnresolvedAssetJobDefinition:
    """Return the job of the built-in checks; none of them writes to a table."""
    return define_asset_job(
        CHECKS,
        AssetSelection.checks(*checks),
        description="Judges every pipeline by the built-in checks; hourly it audits the newest records.",
        tags=run_tags(CHECKS_MAX_RUNTIME_SECONDS),
    )


def quality_job(suites: Sequence[AssetChecksDefinition]) -> UnresolvedAssetJobDefinition:
    """Return the job that judges suites; a person may launch it for any pipeline."""
    return define_asset_job(
        QUALITY,
        AssetSelection.checks(*suites),
        description="Judges the quality suites of the selected pipelines on what was committed.",
        tags=run_tags(QUALITY_MAX_RUNTIME_SECONDS),
    )
