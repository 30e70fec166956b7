"""How many records are done is told while tasks run, whichever way Spark is reached."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from prove.lab.pipeline_lab import make_lab
from spark_jobs.spark.tasks import progress_logged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

IN_THIS_PROCESS = """
import sys
from pathlib import Path
from spark_jobs.spark.environment import isolate_from_user_spark
isolate_from_user_spark()
from pyspark.sql import SparkSession
from tests.integration.test_task_ticker import run_two_tasks
session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
session = session.config("spark.pyspark.python", sys.executable).getOrCreate()
run_two_tasks(session, Path(sys.argv[1]))
"""
LONGEST_SECONDS = 60


class _Listener(logging.Handler):
    """Makes a file when it is told that half of the records are done, which is one of two tasks."""

    def __init__(self, heard: Path) -> None:
        super().__init__()
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("reading: 3 of 6 records done after "):
            self._heard.touch()


def run_two_tasks(session: SparkSession, heard: Path) -> None:
    """The second does not end before it is told that the first is done, or a minute is over."""
    place = str(heard)

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            deadline = time.monotonic() + LONGEST_SECONDS * batch.column(0)[0].as_py()
            while not Path(place).exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            yield batch

    log, listener = logging.getLogger("spark_jobs.spark.tasks"), _Listener(heard)
    log.setLevel(logging.INFO)
    log.addHandler(listener)
    try:
        with progress_logged(session, 2, 6, every_seconds=0.5):
            session.range(0, 2, 1, 2).mapInArrow(work, "id long").collect()
    finally:
        log.removeHandler(listener)
        log.setLevel(logging.NOTSET)


@pytest.mark.spark
def test_a_connect_server_tells_what_is_done(tmp_path: Path, spark_remote: str) -> None:
    """One of two, while the second still runs."""
    lab = make_lab(tmp_path, bootstrap="localhost:1", topic="none", spark_remote=spark_remote)
    with lab.connections() as connections:
        run_two_tasks(connections.spark(), tmp_path / "heard")
    assert (tmp_path / "heard").exists()


@pytest.mark.spark
def test_a_session_of_this_process_tells_it_too(tmp_path: Path) -> None:
    """Through its own status tracker."""
    heard = tmp_path / "heard"
    command = [sys.executable, "-c", IN_THIS_PROCESS, str(heard)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    assert heard.exists(), done.stderr
