"""Zombie tasks: retried, duplicated by speculation, or left by a dead client."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prove.hostile.case import Case, History, repair, scenarios
from prove.lab.drain_process import DrainProcess
from prove.lab.kafka_server import unique_name
from prove.lab.pipeline_lab import make_old
from prove.lab.spark_cluster import spark_cluster
from prove.scenario import Findings
from prove.workload import BATCH, Testbed, Workload
from prove.zombie.runs import CHANGES_NOTHING
from spark_jobs.txlog.store import CLOSING_AFTER_US

POINT = "split.after-chunk"
REACHED_SECONDS = 120.0
WOKEN_SECONDS = 60.0
LATE_FILES = 2  # one of rows, one of dead letters
CLOSING_SECONDS = 2 * CLOSING_AFTER_US // 1_000_000
# A second try runs on another host than the first; all of 127.0.0.0/8 is this one.
HOSTS = ("127.0.0.1", "127.0.0.2")
# Spark kills the process of a task that it gave up after two seconds: one that sleeps longer never wakes.
PATIENT = {"spark.python.task.killTimeout": "600s"}
# Slow is what takes longer than upkeep's tasks do: one that lost to its copy is interrupted, and when that
# hits the loading of a class, its executor can never load it again (docs/how-to/spark-cluster.md).
SPECULATION = {
    **PATIENT,
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "15s",
    "spark.speculation.task.duration.threshold": "15s",
}


@dataclass(frozen=True, slots=True)
class TaskZombie(Case):
    """A task stopped in a waiting batch. ``conf`` is for the case's own Spark cluster, if any."""

    settings: Mapping[str, Any] = field(default_factory=lambda: {"on_spark": True})
    conf: Mapping[str, str] = field(default_factory=dict)

    def run(self, catalog: str, testbed: Testbed) -> Findings:
        """Run as every case, on that cluster."""
        with _spark(self.conf, testbed) as there:
            return Case.run(self, catalog, there)


def _try_again(workload: Workload) -> History:
    workload.drain_and_produce()
    slept = workload.folder / "slept"
    began = time.monotonic()
    answer = workload.lab.start(POINT, once=str(slept)).answer()
    assert slept.exists(), "the task was not killed"
    assert (answer.error, answer.repairs.committed) == (None, 1), answer
    return History("Spark tried the task again, the run went on", recovery_seconds=time.monotonic() - began)


def _kill_client(workload: Workload) -> History:
    with _task_stopped(workload) as client:
        client.kill()
        history = repair("the client died, its task slept on", workload)
    late = _write_late(workload)
    workload.produce_batch()
    closed = repair("", workload, was_read=False, clock_seconds=CLOSING_SECONDS)
    happened = f"{history.happened}; it woke and wrote {late} more files, swept at the closing"
    return replace(
        history, happened=happened, recovery_seconds=history.recovery_seconds + closed.recovery_seconds
    )


def _speculate(workload: Workload) -> History:
    with _task_stopped(workload) as client:
        answer = client.answer()
        assert (answer.error, answer.repairs.committed) == (None, 1), answer
    late = _write_late(workload)
    make_old(workload.lab.stray_files())
    workload.run("orphans")
    return History(
        f"Spark ran the task again, the run went on; the first woke, its {late} files were orphans"
    )


def _write_late(workload: Workload) -> int:
    """Return the number of files written by an awakened task, unknown to the sweep."""
    deadline = time.monotonic() + WOKEN_SECONDS
    while (late := len(workload.lab.stray_files())) < LATE_FILES:
        assert time.monotonic() < deadline, f"it was woken and has written {late} files"
        time.sleep(0.1)
    return late


@contextmanager
def _task_stopped(workload: Workload) -> Iterator[DrainProcess]:
    """Yield a drain of a waiting batch with a stopped task; continue the task at the end."""
    workload.drain_and_produce()
    slept = workload.folder / "slept"
    client = workload.lab.start(POINT, signal.SIGSTOP, once=str(slept))
    deadline = time.monotonic() + REACHED_SECONDS
    while not (slept.exists() and slept.read_text()):
        assert time.monotonic() < deadline, "no task reached the place"
        time.sleep(0.05)
    task = int(slept.read_text())
    try:
        yield client
        os.kill(task, signal.SIGCONT)  # raises when it is gone: nobody wakes then
    finally:
        with suppress(ProcessLookupError):
            os.kill(task, signal.SIGCONT)
        client.kill()


@contextmanager
def _spark(conf: Mapping[str, str], testbed: Testbed) -> Iterator[Testbed]:
    """Yield the testbed, with the case's own Spark cluster if it needs settings."""
    if not conf:
        yield testbed
        return
    folder = testbed.folder / unique_name("cluster")
    # Workers that have the project's own Python: what stops a task must travel there.
    with spark_cluster(folder, conf, python=Path(sys.executable), hosts=HOSTS) as cluster:
        yield replace(testbed, spark_remote=cluster.remote)


CASES = (
    TaskZombie(
        "task-retried",
        "a task's process is killed in the middle of its split",
        "Spark tries it again; what the first try wrote is swept",
        _try_again,
        needs=frozenset({"spark"}),
    ),
    TaskZombie(
        "task-speculated",
        "a task stands still, Spark runs it a second time, it wakes",
        f"{CHANGES_NOTHING}; what it then writes goes with other orphans",
        _speculate,
        conf=SPECULATION,
    ),
    TaskZombie(
        "client-died",
        "the client of a Spark Connect job is killed, its task wakes after the replacement's commit",
        f"{CHANGES_NOTHING}; what it then writes is swept an hour later",
        _kill_client,
        may_read_again=(BATCH,),
        conf=PATIENT,
    ),
)
SCENARIOS = scenarios("a task that sleeps and goes on", CASES, prefix="zombie/")
