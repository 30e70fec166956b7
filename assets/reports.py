"""Reports work done outside Dagster's runs to a Dagster instance, with the metadata of a run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from dagster import AssetKey

    from spark_jobs.config.settings import PipelineConfig
    from spark_jobs.drain.drain import DrainResult
    from spark_jobs.replay.rebuild import RebuildResult
    from spark_jobs.replay.redrive import RedriveResult
    from spark_jobs.replay.replay import ReplayResult
    from spark_jobs.upkeep.upkeep import UpkeepResult

Done: TypeAlias = "DrainResult | ReplayResult | RedriveResult | RebuildResult | UpkeepResult"


def instance_home(state_folder: str) -> Path | None:
    """Return the folder of the Dagster instance: that of `./sluice up`, else ``DAGSTER_HOME``, else None."""
    named = os.environ.get("DAGSTER_HOME")
    folders = [Path(state_folder) / "dagster", *([Path(named)] if named else [])]
    return next((folder for folder in folders if (folder / "dagster.yaml").is_file()), None)


def report_result(home: Path, pipeline: PipelineConfig, result: Done, actor: str) -> None:
    """Report a materialization; skip a result without changes, unless the asset was never materialized."""
    from dagster import AssetMaterialization, DagsterInstance

    from assets.pipeline_asset import table_changed
    from spark_jobs.drain.drain import DrainResult
    from spark_jobs.upkeep.upkeep import UpkeepResult

    key, metadata, is_news = _outcome(pipeline, result)
    with DagsterInstance.from_config(str(home)) as instance:
        if is_news or (metadata and instance.get_latest_materialization_event(key) is None):
            event = AssetMaterialization(key, metadata={**metadata, "done by": actor})
            instance.report_runless_asset_event(event)
        if is_news and not isinstance(result, DrainResult | UpkeepResult):
            instance.report_runless_asset_event(table_changed(instance, pipeline, event.metadata))


def _outcome(pipeline: PipelineConfig, result: Done) -> tuple[AssetKey, Mapping[str, Any], bool]:
    """Return the asset's key, its metadata (empty without a table), and True if anything changed."""
    from assets.pipeline_asset import again_key, table_key, upkeep_key
    from assets.replays import redrive_metadata, replay_metadata
    from assets.table_metadata import drain_metadata
    from assets.upkeep import upkeep_metadata
    from spark_jobs.drain.drain import DrainResult
    from spark_jobs.replay.redrive import RedriveResult
    from spark_jobs.replay.replay import ReplayResult
    from spark_jobs.upkeep.upkeep import UpkeepResult

    if isinstance(result, UpkeepResult):
        return upkeep_key(pipeline, result.kind), upkeep_metadata(pipeline, result), True
    if isinstance(result, DrainResult):
        is_news = bool(result.batches or result.recovery.adopted)
        return table_key(pipeline), drain_metadata(result) if result.metadata else {}, is_news
    if isinstance(result, RedriveResult):
        return again_key("redrive", pipeline), redrive_metadata(result), bool(result.batches)
    verb = "replay" if isinstance(result, ReplayResult) else "rebuild"
    return again_key(verb, pipeline), replay_metadata(result), bool(result.batches)
