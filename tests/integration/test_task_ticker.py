"""How far tasks are is told while they run, whichever way Spark is reached."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from prove.lab.pipeline_lab import make_lab
from spark_jobs.spark.task_ticker import told

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

IN_THIS_PROCESS = """
import logging, sys
from spark_jobs.spark.environment import isolate_from_user_spark
isolate_from_user_spark()
from pyspark.sql import SparkSession
from tests.integration.test_task_ticker import run_two_tasks
logging.basicConfig(level="INFO", stream=sys.stdout, format="%(message)s")
session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
session = session.config("spark.pyspark.python", sys.executable).getOrCreate()
run_two_tasks(session)
"""


def run_two_tasks(session: SparkSession) -> None:
    """The second takes three seconds longer than the first."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(3 * batch.column(0)[0].as_py())
            yield batch

    with told(session, 2, every_seconds=0.5):
        session.range(0, 2, 1, 2).mapInArrow(work, "id long").collect()


@pytest.mark.spark
def test_a_connect_server_tells_what_is_done(
    tmp_path: Path, spark_remote: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One of two, while the second still runs."""
    lab = make_lab(tmp_path, bootstrap="localhost:1", topic="none", spark_remote=spark_remote)
    with lab.connections() as connections, caplog.at_level(logging.INFO, "spark_jobs"):
        run_two_tasks(connections.spark())
    assert re.search(r"reading: 1 of 2 tasks done after \d+ s", caplog.text)


@pytest.mark.spark
def test_a_session_of_this_process_tells_it_too() -> None:
    """Through its own status tracker."""
    done = subprocess.run(
        [sys.executable, "-c", IN_THIS_PROCESS], capture_output=True, text=True, check=False, timeout=120
    )
    assert re.search(r"reading: 1 of 2 tasks done after \d+ s", done.stdout), done.stderr
