"""What a person is told when Spark fails is the cause, not a stack frame."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from spark_jobs.protocol.errors import CommitConflict, RetryableError, Unexpected
from spark_jobs.spark.tasks import _failure, is_crash

TASK_FAILED = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
MemoryError: cannot allocate 5 GiB

JVM stacktrace:
org.apache.spark.api.python.PythonException
	at org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
	at java.base/java.lang.Thread.run(Thread.java:840)
"""


def test_the_tasks_own_exception_is_named() -> None:
    """Of a traceback inside a Java stack trace the message is the task's last line."""
    error = _failure(PySparkException(TASK_FAILED), "attempt-1")
    assert isinstance(error, RetryableError)
    assert "MemoryError: cannot allocate 5 GiB" in error.message
    assert "\n" not in str(error)


def test_a_failure_without_a_traceback_keeps_its_first_line() -> None:
    """A server that is gone has no task to blame."""
    error = _failure(PySparkException("[CONNECT] nobody answers\ndetails"), "attempt-1")
    assert error.message.endswith("[CONNECT] nobody answers")


def test_an_interrupted_attempt_reports_that_another_run_took_over() -> None:
    """Cancelled tasks are no fault of Spark's: somebody else is at work on the pipeline."""
    error = _failure(PySparkException("[OPERATION_CANCELED] Operation has been canceled."), "attempt-1")
    assert isinstance(error, CommitConflict)
    assert error.code == "taken-over"


LOST_WORKER = (
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task"
    " 0.3 in stage 1.0: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)."
)
LOST_EXECUTOR = (
    "Task 2 in stage 0.0 failed 4 times, most recent failure: Lost task 2.3 (10.0.0.7 executor 3):"
    " ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: exit code 137"
)


@pytest.mark.parametrize(
    "text",
    [
        LOST_WORKER,
        LOST_EXECUTOR,
        TASK_FAILED,
        TASK_FAILED.replace("MemoryError: cannot", "pyarrow.lib.ArrowMemoryError: malloc cannot"),
    ],
)
def test_a_task_that_died_is_told_from_a_spark_that_failed(text: str) -> None:
    """A lost worker, a lost executor and memory that ran out may be cured by fewer records."""
    assert is_crash(_failure(PySparkException(text), "attempt-1"))


@pytest.mark.parametrize("cause", ["OSError: the bucket is away", "MyMemoryError: of another kind"])
def test_a_task_that_failed_by_itself_did_not_die(cause: str) -> None:
    """Half of its records would fail the same way: the storage is away for all of them."""
    text = TASK_FAILED.replace("MemoryError: cannot allocate 5 GiB", cause)
    assert _failure(PySparkException(text), "attempt-1").code == "spark-failed"


@pytest.mark.parametrize(
    "cause", ["ValueError: no such place", "pyarrow.lib.ArrowInvalid: offset overflow", "KeyError: 'id'"]
)
def test_a_task_that_fails_alike_each_time_is_no_outage(cause: str) -> None:
    """Spark has tried four times: the next run ends the same."""
    error = _failure(PySparkException(TASK_FAILED.replace("MemoryError: cannot allocate 5 GiB", cause)), "a")
    assert isinstance(error, Unexpected)
    assert cause in error.message
