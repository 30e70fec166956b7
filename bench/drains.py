"""Drains in separate processes, each like a run: the object of measurements."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a process that drains measures its own imports
    from servers.spark_connect import SparkConnectServer
    from spark_jobs.drain.batch_run import BatchResult

PROJECT = Path(__file__).resolve().parents[1]
TIMEOUT_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class MeasuredDrain:
    """One call of ``drain``; ``table_rows`` is the table's row count afterwards.

    ``cpu_seconds`` is of this process, the Spark server and its workers; nan where the system does not tell.
    ``batch_seconds`` are from the commit before (of the first: from the drain's begin) to each batch's own.
    """

    seconds: float
    cpu_seconds: float
    rows: int
    table_rows: int
    batches: tuple[BatchResult, ...]
    batch_seconds: tuple[float, ...]

    @property
    def cpu_us(self) -> dict[str, int]:
        """CPU time of all tasks by step."""
        return _by_step(batch.cpu_us for batch in self.batches)

    @property
    def durations_ms(self) -> dict[str, int]:
        """Wall time of all batches by step."""
        return _by_step(batch.durations_ms for batch in self.batches)

    @property
    def data_files(self) -> int:
        """Number of files written."""
        return sum(batch.counts.data_files for batch in self.batches)

    @property
    def file_bytes(self) -> int:
        """Size of all data files."""
        return sum(batch.counts.file_bytes for batch in self.batches)


@dataclass(frozen=True, slots=True)
class DrainProcess:
    """A process's drains, and the seconds before the first, from the request of the process."""

    start_seconds: float
    import_seconds: float
    connect_seconds: float
    drains: tuple[MeasuredDrain, ...]


def run_drains(
    spark: SparkConnectServer, *configs: Path, budget_seconds: float = TIMEOUT_SECONDS
) -> DrainProcess:
    """Run these drains in a new process, in order, each until caught up, on one Spark server.

    With a budget of 0 each is drained by one batch.
    """
    answer = configs[-1].with_name("drains.pickle")
    words = [str(time.time()), str(spark.process.pid), str(answer), str(budget_seconds), *map(str, configs)]
    python = [sys.executable, "-m", "bench.drain_process", *words]
    subprocess.run(python, cwd=PROJECT, stdout=subprocess.DEVNULL, timeout=TIMEOUT_SECONDS, check=True)
    measured: DrainProcess = pickle.loads(answer.read_bytes())  # noqa: S301  (our own process wrote it)
    return measured


def _by_step(batches: Iterable[dict[str, int]]) -> dict[str, int]:
    steps: Counter[str] = Counter()
    for batch in batches:
        steps.update(batch)
    return dict(sorted(steps.items()))
