"""The processes that fork Spark's Python workers end when nobody needs them, and come back when they are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

WITH_ONE_CHILD = """
import os, pathlib, signal, sys, time
from spark_jobs.worker_daemon import end_when_idle
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as PySpark's daemon does
if not os.fork():
    time.sleep(1)
    pathlib.Path(sys.argv[1]).touch()
    os._exit(0)
end_when_idle(0.2)
time.sleep(60)
"""


def test_a_daemon_ends_once_it_has_had_no_worker_for_a_while(tmp_path: Path) -> None:
    """Not while there is one, however long it works."""
    mark = tmp_path / "worked"
    ended = subprocess.run([sys.executable, "-c", WITH_ONE_CHILD, str(mark)], timeout=30, check=False)
    assert ended.returncode == -signal.SIGTERM
    assert mark.exists()


@pytest.mark.spark
def test_spark_starts_a_daemon_that_ended_again(spark_remote: str) -> None:
    """The next task of its session runs."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(spark_remote).create()
    try:
        worker, daemon = _processes(session)
        os.kill(worker, signal.SIGKILL)
        os.kill(daemon, signal.SIGTERM)
        assert _processes(session)[1] != daemon
    finally:
        session.stop()


def _processes(session: SparkSession) -> tuple[int, int]:
    """Return the pids of a task's worker and of the daemon that forked it."""

    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"worker": [os.getpid()], "daemon": [os.getppid()]})

    (row,) = session.range(1, numPartitions=1).mapInArrow(tell, "worker long, daemon long").collect()
    return row.worker, row.daemon
