"""Runs a batch's tasks in this process: without Spark, which would take most of the time.

Everything of a batch is real but where its tasks run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from spark_jobs.connections.connect import Connections

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class TasksHere:
    """The part of a Spark session that tasks use, without Spark."""

    def __init__(self, indices: range = range(0)) -> None:
        self._indices = indices
        self._outcomes: list[Any] = []

    def range(self, start: int, end: int, step: int, _partitions: int) -> TasksHere:
        """Return the splits' numbers."""
        return TasksHere(range(start, end, step))

    def mapInArrow(self, work: Callable[[Any], Any], _schema: str) -> TasksHere:  # noqa: N802  (Spark's name)
        """Run the work at once."""
        batch = pa.RecordBatch.from_pydict({"id": list(self._indices)})
        self._outcomes = [row for done in work([batch]) for row in done.column(0).to_pylist()]
        return self

    def collect(self) -> list[SimpleNamespace]:
        """Return rows as Spark does."""
        return [SimpleNamespace(outcome=outcome) for outcome in self._outcomes]

    def registerProgressHandler(self, _handler: object) -> None:  # noqa: N802
        """Ignore the handler: there is no progress."""

    def removeProgressHandler(self, _handler: object) -> None:  # noqa: N802
        """Ignore the handler."""

    def addTag(self, _tag: str) -> None:  # noqa: N802
        """Ignore the tag: these tasks cannot be interrupted."""

    def removeTag(self, _tag: str) -> None:  # noqa: N802
        """Ignore the tag."""


def tasks_here(connections: Connections) -> Connections:
    """Return connections without a Spark session."""
    return replace(
        connections,
        spark=lambda: cast("SparkSession", TasksHere()),
        interrupt=lambda _attempt: None,
    )
