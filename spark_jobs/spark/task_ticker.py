"""Says every few seconds how far an operation's records are, in the log that the run writes."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

TELL_EVERY_SECONDS = 5.0

_log = logging.getLogger(__name__)


@contextmanager
def told(
    spark: SparkSession, tasks: int, records: int, *, every_seconds: float = TELL_EVERY_SECONDS
) -> Iterator[None]:
    """Log how many of the ``records`` are done for as long as the body runs; a short one has no line.

    Spark counts tasks, which are about equal: it does not say which are done.
    """
    with _completed(spark) as completed:
        ended, started = Event(), time.monotonic()

        def tell() -> None:
            while not ended.wait(every_seconds):
                seconds = time.monotonic() - started
                done = completed()
                share = f"{records * done // tasks:,} of {records:,} records"
                _log.info("reading: %s done after %.0f s (%d of %d tasks)", share, seconds, done, tasks)

        teller = Thread(target=tell, name="sluice-tasks-told", daemon=True)
        teller.start()
        try:
            yield
        finally:
            ended.set()
            teller.join()


@contextmanager
def _completed(spark: SparkSession) -> Iterator[Callable[[], int]]:
    """Give what tells how many tasks are done: by the Connect server's word, or by this process's JVM."""
    done = 0

    def take(stages: Any, **_: object) -> None:
        nonlocal done
        done = sum(stage.num_completed_tasks for stage in stages or ())

    try:
        spark.registerProgressHandler(take)
    except PySparkException:
        yield partial(_done_here, spark.sparkContext.statusTracker())
        return
    try:
        yield lambda: done
    finally:
        with suppress(ValueError):  # somebody cleared the session's handlers
            spark.removeProgressHandler(take)


def _done_here(tracker: Any) -> int:
    infos = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
    return sum(info.numCompletedTasks for info in infos if info)
