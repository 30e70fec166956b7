"""What a person is told when Spark fails is the cause, not a stack frame."""

from __future__ import annotations

from pyspark.errors import PySparkException

from spark_jobs.core.errors import CommitConflict, RetryableError
from spark_jobs.io.spark_tasks import _failure

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
