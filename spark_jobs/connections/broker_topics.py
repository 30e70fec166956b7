"""Asks the broker for its topics and keeps the answer for ``topics_regex``."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from spark_jobs.config.file import with_listed_topics, write_topics
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.connections.endpoints import resolve_kafka_properties
from spark_jobs.kafka.admin import KafkaAdmin


def list_topics(home: str, properties: Mapping[str, str]) -> tuple[str, ...]:
    """Topics by name, also written to the state folder. Raises as ``KafkaAdmin.topics`` does."""
    with closing(KafkaAdmin(properties)) as admin:
        topics = tuple(sorted(admin.topics()))
    write_topics(home, topics)
    return topics


def refresh_topics(config: SluiceConfig) -> SluiceConfig:
    """Expand ``topics_regex`` by what the broker has now; asks nothing when no pipeline needs it."""
    if not config.templates:
        return config
    list_topics(config.home, resolve_kafka_properties(config))
    return with_listed_topics(config)
