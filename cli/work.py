"""What commands share: the configuration, a pipeline by name, connections, the verdict of an audit."""

from __future__ import annotations

import getpass
import socket
import uuid
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from cli import output
from resources.connections import open_connections
from spark_jobs.config.file import load_config
from spark_jobs.config.settings import PipelineConfig, SluiceConfig
from spark_jobs.protocol.errors import ConfigError

if TYPE_CHECKING:
    from spark_jobs.audit.audit import AuditResult
    from spark_jobs.connections.connect import Connections


def load_pipeline(name: str) -> tuple[SluiceConfig, PipelineConfig]:
    """Return the configuration and its pipeline ``name``; ``ConfigError`` lists the names there are."""
    config = load_config()
    return config, find_pipeline(config, name)


def find_pipeline(config: SluiceConfig, name: str) -> PipelineConfig:
    """Return the pipeline of that name."""
    pipeline = config.pipeline(name)
    if pipeline is None:
        known = ", ".join(p.name for p in config.pipelines) or "none"
        raise ConfigError(
            f"there is no pipeline {name}",
            code="no-such-pipeline",
            hint=f"Configured: {known}. A pipeline of a topics_regex appears once the topic was listed.",
        )
    return pipeline


def pipelines_named(config: SluiceConfig, name: str | None) -> tuple[PipelineConfig, ...]:
    """Return the one pipeline of that name, or all when there is no name."""
    return config.pipelines if name is None else (find_pipeline(config, name),)


def connections_for(
    config: SluiceConfig, pipeline: PipelineConfig, kind: str, *, needs_kafka: bool = True
) -> AbstractContextManager[Connections]:
    """Connections of a piece of work typed by a person; every client connects on first use."""
    return open_connections(
        config,
        pipeline.name,
        kind=kind,
        actor=_person(),
        run_id=f"cli-{uuid.uuid4()}",
        needs_kafka=needs_kafka,
    )


def verdict(result: AuditResult) -> str:
    """Return one line: whether the audit found every record in the table once, and what it rests on."""
    if not result.is_clean:
        return f"NOT exact: {', '.join(result.examples)} (partition:offset)"
    gone = (
        f"; {output.count(result.gone, 'offset')} that Kafka no longer holds were judged by counts"
        if result.gone
        else ""
    )
    removed = (
        f"; {output.count(result.removed, 'record')} another writer removed ({', '.join(result.examples)})"
        if result.removed
        else ""
    )
    return f"every record is in the table once, unchanged{removed}{gone}"


def _person() -> str:
    """Return who typed the command, for the history: ``user@host``."""
    return f"{getpass.getuser()}@{socket.gethostname()}"
