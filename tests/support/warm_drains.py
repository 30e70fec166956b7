"""The benchmark's drain process, forked with its imports done, which are most of it at small sizes."""

from __future__ import annotations

import multiprocessing
import time
from typing import TYPE_CHECKING

from bench.drain_process import answer_drains, read_answer
from prove.lab import drain_process

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

    from bench.drain_process import DrainProcess
    from servers.spark_connect import SparkConnectServer


def run_warm_drains(spark: SparkConnectServer, *configs: Path) -> DrainProcess:
    """As ``run_drains``."""
    context = multiprocessing.get_context("forkserver")
    # The same server that other tests' drains are forked from, whoever asks first.
    context.set_forkserver_preload(["prove.lab.warm", drain_process.__name__])
    receiver, sender = context.Pipe(duplex=False)
    decided_at = time.time()
    process = context.Process(target=_drain, args=(sender, spark.process.pid, list(configs)))
    process.start()
    sender.close()
    with receiver:
        said = receiver.recv()
    process.join()
    return read_answer(said, decided_at)


def _drain(sender: Connection, spark_pid: int, paths: list[Path]) -> None:
    with sender:
        sender.send(answer_drains(time.time(), spark_pid, paths))
