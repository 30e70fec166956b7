"""What clients are given: properties with secrets resolved and our own servers filled in."""

from __future__ import annotations

from spark_jobs.config.secrets import resolve
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.connections.endpoints import read_endpoints
from spark_jobs.protocol.errors import ConfigError


def resolve_connection_properties(
    config: SluiceConfig, *, needs_kafka: bool = True
) -> tuple[dict[str, str], dict[str, str]]:
    """Properties for librdkafka, none unless needed, and for PyIceberg, read now.

    They hold secrets and never reach a log. Raises ``ConfigError``: ``no-broker`` when none is configured and
    none of ours runs, ``missing-secret``.
    """
    kafka = resolve_kafka_properties(config) if needs_kafka else {}
    return kafka, resolve(config.catalog.properties)


def resolve_kafka_properties(config: SluiceConfig) -> dict[str, str]:
    """Properties for librdkafka alone, for what needs no catalog."""
    properties = resolve(config.kafka)
    if properties.get("bootstrap.servers"):
        return properties
    embedded = read_endpoints(config.home).kafka_bootstrap_servers
    if embedded is None:
        raise ConfigError(
            "no broker is configured and the embedded one does not run",
            code="no-broker",
            hint="Run ./sluice up, or set kafka.bootstrap.servers in sluice.yaml.",
        )
    return {**properties, "bootstrap.servers": embedded}
