"""Asks the broker for its topics, and keeps the answer for ``topics_regex``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from spark_jobs.config.expansion import expand
from spark_jobs.config.file import write_topics
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.connections.endpoints import resolve_kafka_properties
from spark_jobs.kafka.admin import KafkaAdmin


def list_topics(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Topics by name. Raises as ``KafkaAdmin.topics`` does."""
    with closing(KafkaAdmin(properties)) as admin:
        return tuple(sorted(admin.topics()))


def refresh_topics(config: SluiceConfig) -> SluiceConfig:
    """Expand ``topics_regex`` by what the broker has now, and keep that; asks nothing when none is written.

    Raises as the broker does, and as the storage under ``state:``.
    """
    if not config.templates:
        return config
    topics = list_topics(resolve_kafka_properties(config))
    write_topics(config, topics)
    return expand(config, topics)
