"""Kafka topics as external assets: Sluice reads them, it does not make them."""

from __future__ import annotations

from collections.abc import Iterable

from dagster import AssetSpec

from assets.keys import GROUP_TOPICS, topic_key
from spark_jobs.config.settings import PipelineConfig


def topic_assets(pipelines: Iterable[PipelineConfig]) -> list[AssetSpec]:
    """Return one asset per topic, also when several pipelines read it."""
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
