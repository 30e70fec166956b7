"""Asks the broker for its topics and keeps the answer for ``topics_regex``."""

from __future__ import annotations

from collections.abc import Mapping

from spark_jobs.config.file import with_listed_topics
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.config.topic_list import write_topics
from spark_jobs.connections.properties import resolve_kafka_properties
from spark_jobs.kafka.admin import KafkaAdmin


def list_topics(home: str, properties: Mapping[str, str]) -> tuple[str, ...]:
    """Topics by name, also written to the state folder. Raises as ``KafkaAdmin.topics`` does."""
    admin = KafkaAdmin(properties)
    try:
        topics = tuple(sorted(admin.topics()))
    finally:
        admin.close()
    write_topics(home, topics)
    return topics


def refresh_topics(config: SluiceConfig) -> SluiceConfig:
    """Expand ``topics_regex`` by what the broker has now; asks nothing when no pipeline needs it."""
    if not config.templates:
        return config
    list_topics(config.home, resolve_kafka_properties(config))
    return with_listed_topics(config)
