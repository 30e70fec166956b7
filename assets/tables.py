"""The Iceberg table assets: materializing one drains its topic until it has caught up or its time is up.

The Kafka topics are external assets: Sluice reads them and does not create them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dagster import AssetExecutionContext, AssetsDefinition, AssetSpec, MetadataValue

from assets.pipeline_asset import (
    DRAIN,
    GROUP_TABLES,
    GROUP_TOPICS,
    drain_budget_seconds,
    pipeline_asset,
    table_key,
    topic_key,
)
from assets.rounds import step_limit
from spark_jobs.config.settings import PipelineConfig

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections


def topic_assets(pipelines: Iterable[PipelineConfig]) -> list[AssetSpec]:
    """Return one asset for each topic, also if several pipelines read it."""
    return [
        AssetSpec(
            topic_key(topic),
            group_name=GROUP_TOPICS,
            kinds={"kafka"},
            description=f"The Kafka topic `{topic}`.",
            metadata={"topic": topic},
        )
        for topic in dict.fromkeys(pipeline.topic for pipeline in pipelines)
    ]


def table_asset(pipeline: PipelineConfig, *, is_local: bool = False) -> AssetsDefinition:
    """Return the asset of one pipeline's table."""

    @pipeline_asset(
        pipeline,
        "drain",
        table_key(pipeline),
        source=topic_key(pipeline.topic),
        group=GROUP_TABLES,
        kinds={"iceberg", "kafka", "spark"},
        pool=DRAIN,
        is_local=is_local,
        description=f"{pipeline.layout.content(pipeline)};"
        f" records that cannot be converted are in `{pipeline.dead_letter_table}`.",
        metadata={
            "dagster/table_name": pipeline.table,
            "topic": pipeline.topic,
            "start": pipeline.start.kind.value,
            "freshness_seconds": pipeline.freshness_seconds,
            **({"schedule": f"{pipeline.schedule} {pipeline.timezone}"} if pipeline.schedule else {}),
            "max_batch_records": pipeline.max_batch_records,
            "max_batch_bytes": pipeline.max_batch_bytes,
            "partition_by": ", ".join(pipeline.partition_by) or "not partitioned",
        },
        is_news=_has_moved,
    )
    def drain_table(context: AssetExecutionContext, connections: Connections) -> Mapping[str, MetadataValue]:
        from assets.checks import judge_new_table
        from assets.table_metadata import drain_metadata
        from spark_jobs.drain.batch_run import committed_line
        from spark_jobs.drain.drain import drain, ended_line

        began = time.monotonic()
        is_first = context.instance.get_latest_materialization_event(table_key(pipeline)) is None
        with step_limit(context, pipeline.name):
            result = drain(
                pipeline,
                connections,
                budget_seconds=drain_budget_seconds(context.run.tags),
                on_progress=lambda batch: context.log.info(committed_line(batch)),
            )
            context.log.info("%s: %s", pipeline.name, ended_line(result, (time.monotonic() - began) * 1000))
            if is_first and result.batches:
                judge_new_table(context, pipeline, context.resources.sluice)
            return drain_metadata(result)

    return drain_table


def _has_moved(context: AssetExecutionContext, shown: Mapping[str, Any]) -> bool:
    """True if the table has advanced since its last materialization, also by a run that failed later."""
    event = context.instance.get_latest_materialization_event(context.asset_key)
    last = event.asset_materialization if event else None
    offsets = last.metadata.get("next_offsets") if last else None
    return bool(shown["batches"]) or offsets is None or offsets.value != shown["next_offsets"]
