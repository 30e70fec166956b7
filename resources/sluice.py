"""What assets and sensors are given: the configuration, connections by pipeline, and the survey of all.

A plain object, not a ``ConfigurableResource``: the properties it holds would be shown in the UI, and its
Kafka connection is kept between the sensor's ticks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resources.connections import open_connections
from resources.survey import Surveyor

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from resources.survey import LogState, Problem, Surveyed
    from spark_jobs.core.config import SluiceConfig
    from spark_jobs.io.connections import Connections

ACTOR = "dagster"


class Sluice:
    """The one resource, under the key ``sluice``."""

    def __init__(self, config: SluiceConfig) -> None:
        self.config = config
        self._surveyor = Surveyor(config)

    def connections(self, pipeline: str, *, kind: str, run_id: str) -> AbstractContextManager[Connections]:
        """Connections for one run's work on one pipeline."""
        return open_connections(self.config, pipeline, kind=kind, actor=ACTOR, run_id=run_id)

    def survey(self) -> list[Surveyed | Problem]:
        """One look at every pipeline's topic and table."""
        return self._surveyor.survey()

    def logs(self, now_us: int) -> list[LogState | Problem]:
        """One look at every pipeline's transaction log."""
        return self._surveyor.logs(now_us)
