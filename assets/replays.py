"""Replay, rebuild and redrive assets.

Replay: each partition key is a window of offsets over all partitions of a topic; materializing it reads the
window again. Rebuild: materializing the asset rebuilds a mirror from its topic. Redrive: materializing the
asset converts a pipeline's dead letters with today's configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dagster import (
    AssetExecutionContext,
    AssetsDefinition,
    BackfillPolicy,
    Config,
    DynamicPartitionsDefinition,
)
from pydantic import Field

from assets.pipeline_asset import GROUP_REPLAY, again_key, pipeline_asset
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.replay.ranges import WINDOW_OFFSETS, parse_range, window_bounds

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections
    from spark_jobs.replay.rebuild import RebuildResult
    from spark_jobs.replay.redrive import RedriveResult
    from spark_jobs.replay.replay import ReplayResult


class ReplayConfig(Config):
    """The launchpad options of a replay."""

    reason: str = Field(default="", description="Reason. It is stored with the batch.")
    force: bool = Field(
        default=False, description="Also replace rows whose records Kafka no longer has (compaction)."
    )
    ranges: list[str] = Field(
        default=[],
        description="Exact ranges PARTITION:START-END (END not included) instead of the partition's window.",
    )


_REPLAY_OPTIONS = ReplayConfig.to_fields_dict()  # once for all pipelines


class OffsetWindows(DynamicPartitionsDefinition):
    """The windows of one pipeline; a sensor registers the ones that can be replayed, for the UI to list.

    Any well-formed window is a key, because no sensor has run in the new instance of a CI job. The replay
    itself rejects a window that cannot be replayed, and names the range that can.
    """

    def has_partition_key(self, partition_key: str, *args: object, **kwargs: object) -> bool:  # noqa: ARG002
        """True if the key is the name of a window."""
        try:
            window_bounds(partition_key)
        except SluiceError:
            return False
        return True


def windows_of(pipeline: PipelineConfig) -> OffsetWindows:
    """Return the partitions of the pipeline's replay asset."""
    return OffsetWindows(name=f"replay/{pipeline.name}")


def replay_asset(pipeline: PipelineConfig, *, is_local: bool = False) -> AssetsDefinition:
    """Return the replay asset of one pipeline."""

    @pipeline_asset(
        pipeline,
        "replay",
        again_key("replay", pipeline),
        group=GROUP_REPLAY,
        is_local=is_local,
        kinds={"iceberg", "kafka", "spark"},
        description=f"Reads a window of {WINDOW_OFFSETS:,} offsets of every partition of `{pipeline.topic}`"
        f" again with today's configuration and replaces the window's rows in `{pipeline.table}` and its dead"
        " letters. Safe while drains run, and safe to repeat. Choose windows on the backfill page, or set"
        " exact ranges as `ranges` in the launchpad.",
        partitions_def=windows_of(pipeline),
        # One run per window, so that a failed window can be found and started again alone.
        backfill_policy=BackfillPolicy.multi_run(max_partitions_per_run=1),
        config_schema=_REPLAY_OPTIONS,
    )
    def replay_window(context: AssetExecutionContext, connections: Connections) -> Mapping[str, Any]:
        from spark_jobs.replay.plan import ranges_of_window
        from spark_jobs.replay.replay import replay

        config, key = ReplayConfig(**context.op_execution_context.op_config), context.partition_key
        ranges = tuple(map(parse_range, config.ranges))
        result = replay(
            pipeline,
            connections,
            ranges or ranges_of_window(pipeline, connections, key),
            reason=config.reason or f"replay of {key}",
            force=config.force,
            on_progress=lambda batch, done, whole: context.log.info(
                "replaced %s: %s of %s offsets", batch.batch.ranges, f"{done:,}", f"{whole:,}"
            ),
        )
        return replay_metadata(result)

    return replay_window


def replay_metadata(result: ReplayResult | RebuildResult) -> dict[str, Any]:
    """Return the figures of a replay or a rebuild."""
    return {
        **{term: n for term, n in result.balance.items() if term != "gaps"},
        "offsets": sum(len(r) for r in result.ranges),
        "commits": len(result.batches),
        "bytes_read": sum(batch.counts.bytes_read for batch in result.batches),
        "ms": sum(sum(b.durations_ms.values()) for b in result.batches),
        "ranges": " ".join(map(str, result.ranges)),
        "snapshots": " ".join(str(b.snapshot_id) for b in result.batches),
    }


class RebuildConfig(Config):
    """The launchpad options of a rebuild."""

    reason: str = Field(default="", description="Reason. It is stored with the batch.")
    force: bool = Field(
        default=False, description="Also rebuild if Kafka no longer has the beginning of the topic."
    )
    from_time: str = Field(
        default="", description="Start at this time; the source must have sent all its rows since then."
    )


_REBUILD_OPTIONS = RebuildConfig.to_fields_dict()  # once for all pipelines


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
        description=f"Applies all changes in `{pipeline.topic}` again and replaces all rows of"
        f" `{pipeline.table}` with the result, in one commit; until then the mirror is unchanged. Safe while"
        " drains run, and safe to repeat.",
        config_schema=_REBUILD_OPTIONS,
    )
    def rebuild_mirror(context: AssetExecutionContext, connections: Connections) -> Mapping[str, Any]:
        from spark_jobs.replay.rebuild import begins_at, rebuild

        config = RebuildConfig(**context.op_execution_context.op_config)
        begins = begins_at(pipeline, connections, config.from_time)
        why = config.reason or "rebuild in Dagster"
        return replay_metadata(rebuild(pipeline, connections, reason=why, begins=begins, force=config.force))

    return rebuild_mirror


class RedriveConfig(Config):
    """The launchpad options of a redrive."""

    reason: str = Field(default="", description="Reason. It is stored with the batch.")
    phases: list[str] = Field(
        default=[], description="Only dead letters that failed in these phases; empty for all."
    )
    fields: list[str] = Field(default=[], description="Only dead letters in which these fields did not fit.")
    offsets: list[str] = Field(
        default=[], description="Only dead letters in these ranges PARTITION:START-END (END not included)."
    )
    limit: int = Field(
        default=0, description="Maximum number of dead letters, lowest offsets first; 0 for all.", ge=0
    )


_REDRIVE_OPTIONS = RedriveConfig.to_fields_dict()  # once for all pipelines


def redrive_asset(pipeline: PipelineConfig, *, is_local: bool = False) -> AssetsDefinition:
    """Return the redrive asset of one pipeline."""

    @pipeline_asset(
        pipeline,
        "redrive",
        again_key("redrive", pipeline),
        group=GROUP_REPLAY,
        is_local=is_local,
        kinds={"iceberg", "spark"},
        description=f"Converts the dead letters of `{pipeline.table}` again with today's configuration,"
        " without reading Kafka. Each becomes a row with its own Kafka coordinates, or a dead letter with its"
        " new error. Safe while drains run, and safe to repeat. Select dead letters in the launchpad.",
        config_schema=_REDRIVE_OPTIONS,
    )
    def redrive_letters(context: AssetExecutionContext, connections: Connections) -> Mapping[str, Any]:
        from spark_jobs.replay.redrive import redrive
        from spark_jobs.replay.redrive_plan import Selection

        config = RedriveConfig(**context.op_execution_context.op_config)
        offsets = tuple(map(parse_range, config.offsets))
        result = redrive(
            pipeline,
            connections,
            Selection(tuple(config.phases), tuple(config.fields), offsets, config.limit or None),
            reason=config.reason or "redrive in Dagster",
            on_progress=lambda batch, done, whole: context.log.info(
                "%s: %s of %s dead letters", batch.batch.batch_id, f"{done:,}", f"{whole:,}"
            ),
        )
        return redrive_metadata(result)

    return redrive_letters


def redrive_metadata(result: RedriveResult) -> dict[str, Any]:
    """Return the figures of a redrive."""
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
