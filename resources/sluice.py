"""What assets and sensors are given: the configuration, connections by pipeline, and the survey of all.

A plain object, not a ``ConfigurableResource``: the properties it holds would be shown in the UI, and its
Kafka connection is kept between the sensor's ticks.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from resources.connections import open_connections
from resources.spark import SparkSessions
from spark_jobs.config.settings import PipelineConfig, SluiceConfig
from spark_jobs.monitoring.checkup import Health, check_up
from spark_jobs.monitoring.survey import Surveyor

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections

ACTOR = "dagster"


class Sluice:
    """The resource ``sluice``."""

    def __init__(self, config: SluiceConfig) -> None:
        self.config = config
        self.surveyor = Surveyor(config)
        # By topic, when it was observed last (seconds since the epoch) and as what.
        self.topics_told: dict[str, tuple[float, dict[str, Any]]] = {}

    def connections(
        self, pipeline: str, sessions: SparkSessions, *, kind: str, run_id: str
    ) -> AbstractContextManager[Connections]:
        """Give connections for one run's work on one pipeline."""
        return open_connections(
            self.config, pipeline, kind=kind, actor=ACTOR, run_id=run_id, sessions=sessions
        )

    def check_up(self, pipeline: PipelineConfig) -> Health:
        """Look once at one pipeline for the built-in checks."""
        (health,) = check_up(Surveyor(self.config.model_copy(update={"pipelines": (pipeline,)})))
        return health
