"""List of the broker's topics, stored for ``topics_regex``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing, suppress

from spark_jobs.config.expansion import contested, expand
from spark_jobs.config.file import listed_topics, write_topics
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.connections.endpoints import resolve_kafka_properties
from spark_jobs.kafka.admin import KafkaAdmin
from spark_jobs.protocol.errors import SluiceError


def list_topics(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the topics sorted by name. Raises like ``KafkaAdmin.topics``."""
    with closing(KafkaAdmin(properties)) as admin:
        return tuple(sorted(admin.topics()))


def refresh_topics(config: SluiceConfig) -> SluiceConfig:
    """Expand ``topics_regex`` by the broker's current topics and store the list; a no-op without one.

    Of two that would have one name or table it is the one's that fills the table, else who was listed before.
    Raises as the broker does, and as the storage under ``state:``.
    """
    if not config.templates:
        return config
    found = list_topics(resolve_kafka_properties(config))
    listed = [topic for topic in listed_topics(config) if topic in found]
    topics = [*listed, *(topic for topic in found if topic not in set(listed))]
    if tables := contested(config, topics):
        fills = _topics_of(config, tables)
        topics.sort(key=lambda topic: topic not in fills)
    write_topics(config, topics)
    return expand(config, topics)


def _topics_of(config: SluiceConfig, tables: Iterable[str]) -> set[str]:
    """Return the topics that fill these tables; empty if the catalog is unavailable."""
    from spark_jobs.connections.connect import open_catalog  # noqa: PLC0415  (pyiceberg, only where two want one table)
    from spark_jobs.lake.catalog import released  # noqa: PLC0415
    from spark_jobs.lake.tables import load_table, progress_of  # noqa: PLC0415

    filled = set()
    with suppress(SluiceError), released(open_catalog(config)) as catalog:
        for name in sorted(tables):
            with suppress(SluiceError):
                table = load_table(catalog, name)
                filled |= set() if table is None else {progress_of(table).topic}
    return filled
