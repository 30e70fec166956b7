"""Why nothing of a mirror is done again by offsets. Pure."""

from __future__ import annotations

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import ConfigError


def refuse_again(pipeline: PipelineConfig) -> None:
    """Raise ``ConfigError`` (``mirror-replay``) for a mirror."""
    if pipeline.is_mirror:
        raise ConfigError(
            "a mirror's rows are the newest changes of their keys: earlier ones are not put in their place",
            code="mirror-replay",
            hint=f"Make it anew of all changes: {mends.act('rebuild', pipeline.name)}.",
            pipeline=pipeline.name,
        )
