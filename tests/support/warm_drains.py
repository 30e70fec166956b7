"""The benchmark's drain process, forked with its imports done, which are most of it at small sizes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench.drain_process import answer_drains, read_answer
from prove.lab.forked import fork

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    from bench.drain_process import DrainProcess
    from servers.spark_connect import SparkConnectServer


def run_warm_drains(spark: SparkConnectServer, *configs: Path) -> DrainProcess:
    """As ``run_drains``."""
    decided_at = time.time()
    process, receiver = fork(_drain, spark.process.pid, list(configs))
    with receiver:
        answer = receiver.recv()
    process.join()
    return read_answer(answer, decided_at)


def _drain(sender: Connection, spark_pid: int, paths: list[Path]) -> None:
    with sender:
        sender.send(answer_drains(time.time(), spark_pid, paths))
