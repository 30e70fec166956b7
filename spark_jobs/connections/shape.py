"""By which shape a pipeline's records become rows today."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.config.shape import shape_digest

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections


def shape_of(pipeline: PipelineConfig, connections: Connections) -> str:
    """Return the digest of what decides it, schema files too. Raises as ``RecordSchemas.file_digests``."""
    files = connections.schemas(pipeline).file_digests() if pipeline.has_schemas else {}
    return shape_digest(pipeline, files)
