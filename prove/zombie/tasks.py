"""Zombies that are tasks: tried again, run twice by speculation, or left behind by a client that died."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from prove.hostile.case import History, drain_one_batch, judge, repair
from prove.lab.clock import ClockJump
from prove.lab.drain_process import DrainProcess
from prove.lab.kafka_server import unique_name
from prove.lab.spark_cluster import spark_cluster
from prove.scenario import Findings, Scenario, scenario_on
from prove.workload import BATCH, SQLITE, Testbed, Workload
from prove.zombie.runs import CHANGES_NOTHING
from spark_jobs.txlog.store import CLOSING_AFTER_US

POINT = "split.after-chunk"
REACHED_SECONDS = 120.0
WOKEN_SECONDS = 60.0
LATE_FILES = 2  # one of rows, one of dead letters
DAYS_SECONDS = 4 * 24 * 3600  # older than what orphan removal spares
CLOSING = ClockJump(2 * CLOSING_AFTER_US // 1_000_000)
# A second try runs on another host than the first; all of 127.0.0.0/8 is this one.
HOSTS = ("127.0.0.1", "127.0.0.2")
# Spark kills the process of a task that it gave up after two seconds: one that sleeps longer never wakes.
PATIENT = {"spark.python.task.killTimeout": "600s"}
# Slow is what takes longer than upkeep's tasks do: one that lost to its copy is interrupted, and when that
# hits the loading of a class, its executor can never load it again (docs/SPARK.md).
SPECULATION = {
    **PATIENT,
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "15s",
    "spark.speculation.task.duration.threshold": "15s",
}


def _try_again(workload: Workload) -> History:
    slept = workload.folder / "slept"
    began = time.monotonic()
    answer = workload.lab.start(POINT, once=str(slept)).answer()
    assert slept.exists(), "the task was not killed"
    assert (answer.error, answer.batches) == (None, 1), answer
    return History("Spark tried the task again, the run went on", recovery_seconds=time.monotonic() - began)


def _kill_client(workload: Workload) -> History:
    with _task_stopped(workload) as client:
        client.kill()
        history = repair("the client died, its task slept on", workload)
    late = _write_late(workload)
    workload.produce_batch()
    closed = repair("", workload, was_read=False, clock=CLOSING)
    happened = f"{history.happened}; it woke and wrote {late} more files, swept at the closing"
    return replace(
        history, happened=happened, recovery_seconds=history.recovery_seconds + closed.recovery_seconds
    )


def _speculate(workload: Workload) -> History:
    with _task_stopped(workload) as client:
        answer = client.answer()
        assert (answer.error, answer.batches) == (None, 1), answer
    late = _write_late(workload)
    for path in workload.lab.stray_files():
        os.utime(path, times=(time.time() - DAYS_SECONDS,) * 2)
    workload.run("orphans")
    return History(
        f"Spark ran the task again, the run went on; the first woke, its {late} files were orphans"
    )


def _write_late(workload: Workload) -> int:
    """Return how many files a task that was woken has written: whoever swept could not know of them."""
    deadline = time.monotonic() + WOKEN_SECONDS
    while (late := len(workload.lab.stray_files())) < LATE_FILES:
        assert time.monotonic() < deadline, f"it was woken and has written {late} files"
        time.sleep(0.1)
    return late


@contextmanager
def _task_stopped(workload: Workload) -> Iterator[DrainProcess]:
    """A drain, one of whose tasks stands still; in the end that one goes on."""
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


def _run(
    inject: Callable[[Workload], History],
    may_read_again: tuple[int, ...],
    conf: Mapping[str, str],
    testbed: Testbed,
) -> Findings:
    """Stop a task of a pipeline on Spark where a batch waits, let the rest go on, wake it, check."""
    with _spark(conf, testbed) as there, there.workload(SQLITE, on_spark=True) as workload:
        drain_one_batch(workload)
        workload.produce_batch()
        return judge(workload, inject(workload), may_read_again)


@contextmanager
def _spark(conf: Mapping[str, str], testbed: Testbed) -> Iterator[Testbed]:
    """The testbed, with a Spark cluster of the case's own if it wants settings."""
    if not conf:
        yield testbed
        return
    folder = testbed.folder / unique_name("cluster")
    # Workers that have the project's own Python: what stops a task must travel there.
    with spark_cluster(folder, conf, python=Path(sys.executable), hosts=HOSTS) as cluster:
        yield replace(testbed, spark_remote=cluster.remote)


def zombie_tasks() -> Iterator[Scenario]:
    """Yield every case, in the report's order."""
    for name, title, promise, inject, may_read_again, conf in CASES:
        yield scenario_on(
            f"zombie/{name}",
            "a task that sleeps and goes on",
            title,
            promise,
            partial(_run, inject, may_read_again, conf),
            needs=set() if conf else {"spark"},
        )


CASES: tuple[tuple[str, str, str, Callable[[Workload], History], tuple[int, ...], Mapping[str, str]], ...] = (
    (
        "task-retried",
        "a task's process is killed in the middle of its split",
        "Spark tries it again; what the first try wrote is swept",
        _try_again,
        (0,),
        {},
    ),
    (
        "task-speculated",
        "a task stands still, Spark runs it a second time, it wakes",
        f"{CHANGES_NOTHING}; what it then writes goes with other orphans",
        _speculate,
        (0,),
        SPECULATION,
    ),
    (
        "client-died",
        "the client of a Spark Connect job is killed, its task wakes after the replacement's commit",
        f"{CHANGES_NOTHING}; what it then writes is swept an hour later",
        _kill_client,
        (BATCH,),
        PATIENT,
    ),
)
