"""Dagster resource with the configuration, connections per pipeline and surveys of all pipelines.

``Sluice`` is a plain object, not a ``ConfigurableResource``: the properties it holds would be shown in the
UI, and its Kafka connection is kept between the sensor's ticks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resources.spark import SparkSessions, spark_parallelism
from spark_jobs.config.settings import PipelineConfig, SluiceConfig
from spark_jobs.monitoring.checkup import Health, check_up
from spark_jobs.monitoring.survey import Surveyor
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import SluiceError, named
from spark_jobs.storage.state_files import make_state_folder

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections


ACTOR = "dagster"


class Sluice:
    """The resource ``sluice``."""

    def __init__(self, config: SluiceConfig) -> None:
        self.config = config
        self.surveyor = Surveyor(config)
        # By topic, when it was observed last (seconds since the epoch) and as what.
        self.topics_observed: dict[str, tuple[float, dict[str, Any]]] = {}
        # By name of a replay's windows, those that the instance was seen to have.
        self.windows_registered: dict[str, tuple[str, ...]] = {}

    def connections(
        self, pipeline: str, sessions: SparkSessions, *, kind: str, run_id: str
    ) -> AbstractContextManager[Connections]:
        """Yield connections for one run's work on one pipeline."""
        return open_connections(
            self.config, pipeline, kind=kind, actor=ACTOR, run_id=run_id, sessions=sessions
        )

    def check_up(self, pipelines: Sequence[PipelineConfig]) -> list[Health]:
        """Run the built-in checks of these pipelines once."""
        return check_up(Surveyor(self.config.model_copy(update={"pipelines": tuple(pipelines)})))


# A pipeline's connections for one piece of work; when that is cut short, its Spark work is stopped too.


# What failed of these is counted and told; who only looks sees it on the screen.
_BY_SPARK = frozenset({"drain", "replay", "redrive"})  # not all of upkeep needs it
_WORK = frozenset({*_BY_SPARK, "upkeep"})


@contextmanager
def open_connections(
    config: SluiceConfig,
    pipeline: str,
    *,
    kind: str,
    actor: str,
    run_id: str,
    needs_kafka: bool = True,
    sessions: SparkSessions | None = None,
) -> Iterator[Connections]:
    """Yield connections for ``kind`` of work (``drain``, ``checkpoint``, ...); clients connect on first use.

    ``sessions`` are those that Dagster injects; a command has its own.

    Leaving by anything but a named error (a termination, Ctrl-C, a bug) interrupts the Spark work of the
    attempt that was under way: on a Connect server it would otherwise hold the cores for nobody. Of drains,
    replays, redrives and upkeep every error is counted and told.
    """
    from spark_jobs.connections.connect import connect  # noqa: PLC0415  (pyiceberg, Kafka)

    make_state_folder(Path(config.home))
    attempts: list[str] = []
    with _noted(config, pipeline, kind, attempts):
        spark = (sessions or SparkSessions(config)).of(kind)
        if kind in _BY_SPARK:
            spark.use()  # a sleeping server starts while the work is planned
        connections = connect(
            config,
            spark=spark.session,
            interrupt=spark.interrupt,
            parallelism=spark_parallelism(config),
            actor=actor,
            run_id=run_id,
            needs_kafka=needs_kafka,
        )

        def new_attempt() -> str:
            attempts.append(connections.new_attempt())
            return attempts[-1]

        try:
            yield replace(connections, new_attempt=new_attempt)
        except SluiceError as error:
            if pipeline:
                error.name_pipeline(pipeline)
            raise
        except BaseException:
            if attempts:
                spark.interrupt(attempts[-1])
            raise


@contextmanager
def _noted(config: SluiceConfig, name: str, work: str, attempts: Sequence[str]) -> Iterator[None]:
    """Count and report the error that ends the work, including unnamed ones."""
    from spark_jobs.notices.failures import work_failed, work_succeeded  # noqa: PLC0415  (requests)

    if work not in _WORK or (pipeline := config.pipeline(name)) is None:
        yield
        return
    try:
        yield
    except Exception as error:
        why, attempt = named(error, mends.command("drain", name)), attempts[-1] if attempts else ""
        work_failed(config.home, pipeline, work, why, attempt=attempt)
        raise
    work_succeeded(config.home, pipeline, work)
