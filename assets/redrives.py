"""Redrives: materializing the asset sends a pipeline's dead letters through today's configuration again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dagster import AssetExecutionContext, AssetsDefinition, Config
from pydantic import Field

from assets.keys import GROUP_REPLAY, again_key
from assets.pipeline_asset import pipeline_asset
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.replay.ranges import parse_range

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections
    from spark_jobs.replay.redrive import RedriveResult


class RedriveConfig(Config):
    """What the launchpad asks for."""

    reason: str = Field(default="", description="Why; it is kept with the batch.")
    phases: list[str] = Field(default=[], description="Only letters that did not pass these; all without.")
    fields: list[str] = Field(default=[], description="Only letters of which these fields did not fit.")
    offsets: list[str] = Field(
        default=[], description="Only letters of these ranges PARTITION:START-END (END not included)."
    )
    limit: int = Field(default=0, description="At most so many, from the lowest offsets on; 0 is all.", ge=0)


def redrive_asset(pipeline: PipelineConfig, *, is_local: bool = False) -> AssetsDefinition:
    """Return the redrive asset of one pipeline."""

    @pipeline_asset(
        pipeline,
        "redrive",
        again_key("redrive", pipeline),
        group=GROUP_REPLAY,
        is_local=is_local,
        kinds={"iceberg", "spark"},
        description=f"Sends the dead letters of `{pipeline.table}` through today's configuration once more,"
        " without Kafka: rows with their own coordinates, or dead letters that say why again. Safe beside"
        " drains and to repeat. Which ones goes into the launchpad.",
        config_schema=RedriveConfig.to_fields_dict(),
    )
    def redrive_letters(context: AssetExecutionContext, connections: Connections) -> Mapping[str, Any]:
        from spark_jobs.replay.redrive import redrive
        from spark_jobs.replay.redrive_plan import Wanted

        config = RedriveConfig(**context.op_execution_context.op_config)
        offsets = tuple(map(parse_range, config.offsets))
        result = redrive(
            pipeline,
            connections,
            Wanted(tuple(config.phases), tuple(config.fields), offsets, config.limit or None),
            reason=config.reason or "redrive in Dagster",
            on_progress=lambda batch, done, whole: context.log.info(
                "%s: %s of %s dead letters", batch.batch.batch_id, f"{done:,}", f"{whole:,}"
            ),
        )
        return redrive_metadata(result)

    return redrive_letters


def redrive_metadata(result: RedriveResult) -> dict[str, Any]:
    """Return the figures of one redrive."""
    balance = result.balance
    return {
        "dead_letters_sent": balance.offsets,
        "rows": balance.rows,
        "failed_again": balance.dead_letters,
        "filtered": balance.get("filtered", 0),
        "routed": balance.get("routed", 0),
        "left_as_they_are": sum(result.left.values()),
        "commits": len(result.batches),
        "ms": sum(sum(batch.durations_ms.values()) for batch in result.batches),
        "snapshots": " ".join(str(batch.snapshot_id) for batch in result.batches),
    }
