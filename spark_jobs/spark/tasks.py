"""Execution of split tasks on Spark, which schedules, retries and distributes them."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import TaskContext
from pyspark.errors import PySparkException

from spark_jobs.protocol.batch import OutcomeKind, Split, SplitOutcome, outcome_from_json
from spark_jobs.protocol.errors import SluiceError, error_from_json, fault

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SPARK_FAILURES = (PySparkException, Py4JError)  # the second from a session in this process
# The worker is gone, or asked for more memory than there is: trying the same records again ends the same.
_CRASH = re.compile(
    r"Python worker exited unexpectedly"
    r"|ExecutorLostFailure .*caused by one of the running tasks"
    r"|^(numpy\.\S*|pyarrow\.lib\.Arrow)?MemoryError\b",
    re.MULTILINE,
)
# What Python, Arrow and PyIceberg raise of values as they are: four tries have ended the same.
_SAME_AGAIN = re.compile(
    r"(pyarrow\.lib\.Arrow(Invalid|TypeError|NotImplementedError|KeyError|IndexError)"
    r"|((Assertion|Attribute|Index|Key|NotImplemented|Overflow|Runtime|Type|Value|ZeroDivision)Error))\b"
)
_CAUSE = re.compile(
    r"(?!org\.|java\.|Caused by)[\w.]*(Error|Exception|ArrowInvalid)\b"
)  # Python's, not the JVM's


def run_on_spark(
    spark: SparkSession, work: Callable[[Split], SplitOutcome], splits: Sequence[Split], *, tag: str
) -> list[SplitOutcome]:
    """Run one task per split in parallel; return outcomes in split order, none FAILED.

    ``work`` is pickled: functions of ``spark_jobs`` travel by name. Every operation carries ``tag``, so that
    another process attached to the same session can interrupt it. Raises the first failed split's error, or
    ``RetryableError`` when Spark itself failed (four failed tries, a server that is gone), one of which
    ``is_crash`` is true when a task died in every try, ``CommitConflict`` when another run's recovery
    interrupted the tasks.
    """
    by_id = dict(enumerate(splits))

    def run_partition(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            outcomes = [_tried(work(by_id[index])).to_json() for index in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pydict(
                {"outcome": outcomes}, schema=pa.schema([("outcome", pa.string())])
            )

    spark.addTag(tag)
    try:
        tasks = spark.range(0, len(splits), 1, len(splits)).mapInArrow(run_partition, "outcome string")
        records = sum(len(each) for split in splits for each in split.ranges)
        with progress_logged(spark, len(splits), records):
            rows = tasks.collect()
    except SPARK_FAILURES as error:
        raise _failure(error, tag) from error
    finally:
        with suppress(*SPARK_FAILURES):  # a server that is gone has no tags either
            spark.removeTag(tag)
    outcomes = sorted((outcome_from_json(row.outcome) for row in rows), key=lambda o: o.split_id)
    for outcome in outcomes:
        if outcome.kind is OutcomeKind.FAILED and outcome.error is not None:
            raise error_from_json(outcome.error)
    return outcomes


def is_crash(error: SluiceError) -> bool:
    """True if a task died in every try, so that fewer records may succeed."""
    return error.code == "task-crashed"


def _tried(outcome: SplitOutcome) -> SplitOutcome:
    context = TaskContext.get()
    return replace(outcome, failed_tries=context.attemptNumber() if context else 0)


def _failure(error: Exception, tag: str) -> SluiceError:
    if "OPERATION_CANCELED" in str(error):
        return fault("taken-over", attempt=tag)
    if _CRASH.search(str(error)):
        return fault("task-crashed", why=_reason(error), attempt=tag)
    if _SAME_AGAIN.match(reason := _reason(error)):
        return fault("unexpected.task", why=reason, attempt=tag)
    return fault("spark-failed", why=reason, attempt=tag)


def _reason(error: Exception) -> str:
    """Return the line that names the cause: a task's exception follows its traceback, before the JVM's."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if _CAUSE.match(line)]
    return (causes or lines or [type(error).__name__])[-1 if causes else 0]


# Says every few seconds how far an operation's records are, in the log that the run writes.


TELL_EVERY_SECONDS = 5.0

_log = logging.getLogger(__name__)


@contextmanager
def progress_logged(
    spark: SparkSession, tasks: int, records: int, *, every_seconds: float = TELL_EVERY_SECONDS
) -> Iterator[None]:
    """Log the progress of the ``records`` while the body runs; nothing for a short one.

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

        teller = Thread(target=tell, name="sluice-tasks-progress", daemon=True)
        teller.start()
        try:
            yield
        finally:
            ended.set()
            teller.join()


@contextmanager
def _completed(spark: SparkSession) -> Iterator[Callable[[], int]]:
    """Return a function that counts completed tasks, by the Spark Connect server or this JVM."""
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
