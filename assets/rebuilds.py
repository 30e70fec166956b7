"""Rebuilds: materializing the asset makes a mirror anew from its topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dagster import AssetExecutionContext, AssetsDefinition, Config
from pydantic import Field

from assets.keys import GROUP_REPLAY, again_key
from assets.pipeline_asset import pipeline_asset
from assets.replays import replay_metadata
from spark_jobs.config.settings import PipelineConfig

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections


class RebuildConfig(Config):
    """What the launchpad asks for."""

    reason: str = Field(default="", description="Why; it is kept with the batch.")
    force: bool = Field(default=False, description="Also where Kafka no longer holds the topic's beginning.")
    from_time: str = Field(default="", description="Begin at this time: the source told all its rows since.")


def rebuild_asset(pipeline: PipelineConfig, *, is_local: bool = False) -> AssetsDefinition:
    """Return the rebuild asset of one mirror."""

    @pipeline_asset(
        pipeline,
        "replay",
        again_key("rebuild", pipeline),
        verb="rebuild",
        group=GROUP_REPLAY,
        is_local=is_local,
        kinds={"iceberg", "kafka", "spark"},
        description=f"Folds all changes in `{pipeline.topic}` anew and puts what they come to in the place of"
        f" `{pipeline.table}`, in one commit; until then the mirror is as it was. Safe beside drains and to"
        " repeat.",
        config_schema=RebuildConfig.to_fields_dict(),
    )
    def rebuild_mirror(context: AssetExecutionContext, connections: Connections) -> Mapping[str, Any]:
        from spark_jobs.replay.rebuild import begins_at, rebuild

        config = RebuildConfig(**context.op_execution_context.op_config)
        begins = begins_at(pipeline, connections, config.from_time)
        why = config.reason or "rebuild in Dagster"
        return replay_metadata(rebuild(pipeline, connections, reason=why, begins=begins, force=config.force))

    return rebuild_mirror
