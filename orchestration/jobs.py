"""The jobs that sensors, schedules and people start: bounded in time, and never retried by Dagster.

Their steps run in the run's own process (`Definitions(executor=...)`): a second one costs seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dagster import AssetChecksDefinition, AssetSelection, define_asset_job

from assets.pipeline_asset import (
    CHECKS,
    DRAIN_MAX_RUNTIME_SECONDS,
    GROUP_TABLES,
    GROUP_UPKEEP,
    NO_RETRY_TAGS,
    OTHER_MAX_RUNTIME_SECONDS,
    QUALITY,
    TAG_MAX_RUNTIME,
)

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

_JUDGED = {
    CHECKS: "Judges every pipeline by the built-in checks; hourly it audits the newest records.",
    QUALITY: "Judges the quality suites of the selected pipelines on what was committed.",
}


def run_tags(max_runtime_seconds: int) -> dict[str, str]:
    """Return the tags of a run that the monitor fails after so long and that no Dagster mechanism retries."""
    return {TAG_MAX_RUNTIME: str(max_runtime_seconds), **NO_RETRY_TAGS}


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
    tags=run_tags(OTHER_MAX_RUNTIME_SECONDS),
)


def judging_job(name: str, checks: Sequence[AssetChecksDefinition]) -> UnresolvedAssetJobDefinition:
    """Return the job ``checks`` or ``quality``, which people may launch too; neither writes to a table."""
    return define_asset_job(
        name,
        AssetSelection.checks(*checks),
        description=_JUDGED[name],
        tags=run_tags(OTHER_MAX_RUNTIME_SECONDS),
    )
