"""A pipeline's connections for one piece of work; when that is cut short, its Spark work is stopped too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from resources.spark import SparkSessions, spark_parallelism
from spark_jobs.config.settings import SluiceConfig
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.storage.state_files import make_private

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections


# What failed of these is counted and told; who only looks sees it on the screen.
_WORK = frozenset({"drain", "replay", "redrive", "upkeep"})


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
    """Give connections for ``kind`` of work (``drain``, ``checkpoint``, ...); clients connect on first use.

    ``sessions`` are those that Dagster injects; a command has its own.

    Leaving by anything but a named error (a termination, Ctrl-C, a bug) interrupts the Spark work of the
    attempt that was under way: on a Connect server it would otherwise hold the cores for nobody. Of drains,
    replays, redrives and upkeep a named error is counted and told.
    """
    from spark_jobs.connections.connect import connect  # noqa: PLC0415  (pyiceberg, Kafka)
    from spark_jobs.notices.failures import work_failed, work_succeeded  # noqa: PLC0415  (requests)

    make_private(Path(config.home))
    spark = (sessions or SparkSessions(config)).of(kind)
    connections = connect(
        config,
        spark=spark.session,
        interrupt=spark.interrupt,
        parallelism=spark_parallelism(config),
        actor=actor,
        run_id=run_id,
        needs_kafka=needs_kafka,
    )
    attempts: list[str] = []

    def new_attempt() -> str:
        attempts.append(connections.new_attempt())
        return attempts[-1]

    told_of = config.pipeline(pipeline) if kind in _WORK else None
    try:
        yield replace(connections, new_attempt=new_attempt)
    except SluiceError as error:
        if told_of is not None:
            work_failed(config.home, told_of, kind, error)
        raise
    except BaseException:
        if attempts:
            spark.interrupt(attempts[-1])
        raise
    if told_of is not None:
        work_succeeded(config.home, told_of, kind)
