"""The benchmark's drain process, forked with its imports done, which are most of it at small sizes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench.drain_process import measure_drains
from bench.drains import TIMEOUT_SECONDS
from prove.lab.forked import fork

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    from bench.drains import DrainProcess
    from servers.spark_connect import SparkConnectServer


def run_warm_drains(
    spark: SparkConnectServer, *configs: Path, budget_seconds: float = TIMEOUT_SECONDS
) -> DrainProcess:
    """As ``run_drains``."""
    process, receiver = fork(_drain, time.time(), spark.process.pid, budget_seconds, list(configs))
    with receiver:
        answer: DrainProcess = receiver.recv()
    process.join()
    return answer


def _drain(
    sender: Connection, asked_at: float, spark_pid: int, budget_seconds: float, paths: list[Path]
) -> None:
    with sender:
        sender.send(measure_drains(asked_at, time.time(), spark_pid, budget_seconds, paths))
