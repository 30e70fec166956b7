"""Zombies that are tasks: tried again, run twice by speculation, or left behind by a client that died."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from prove.hostile.case import Told, drained, judge, put_right
from prove.lab.clock import ClockJump
from prove.lab.kafka_server import unique_name
from prove.lab.spark_cluster import spark_cluster
from prove.scenario import Scenario
from prove.stage import BATCH, CATALOG_NAMES, SQLITE
from prove.zombie.runs import CHANGES_NOTHING
from spark_jobs.txlog.store import CLOSING_AFTER_US

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prove.lab.drain_process import DrainProcess
    from prove.scenario import Findings
    from prove.stage import Play, Stage

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


@dataclass(frozen=True, slots=True)
class TaskCase:
    """``happen`` is done to a pipeline on Spark where a batch waits; with ``conf`` on its own cluster."""

    name: str
    title: str
    promise: str
    happen: Callable[[Play], Told]
    may_read_again: tuple[int, ...] = (0,)
    conf: Mapping[str, str] = field(default_factory=dict)

    def scenario(self) -> Scenario:
        """The case as the runner knows it."""
        return Scenario(
            name=f"{SQLITE}/zombie/{self.name}",
            group=f"a task that sleeps and goes on, on {CATALOG_NAMES[SQLITE]}",
            title=self.title,
            promise=self.promise,
            needs=frozenset() if self.conf else frozenset({"spark"}),
            is_quick=False,
            run=self.run,
        )

    def run(self, stage: Stage) -> Findings:
        """Stop a task, let the rest go on, wake it, look."""
        with self._spark(stage) as there, there.play(SQLITE, on_spark=True) as play:
            drained(play)
            play.produce_batch()
            return judge(play, self.happen(play), self.may_read_again)

    @contextmanager
    def _spark(self, stage: Stage) -> Iterator[Stage]:
        if not self.conf:
            yield stage
            return
        folder = stage.folder / unique_name("cluster")
        # Workers that have the project's own Python: what stops a task must travel there.
        with spark_cluster(folder, self.conf, python=Path(sys.executable), hosts=HOSTS) as cluster:
            yield replace(stage, spark_remote=cluster.remote)


def zombie_tasks() -> Iterator[Scenario]:
    """Every case, in the report's order."""
    yield from (case.scenario() for case in CASES)


def _tried_again(play: Play) -> Told:
    slept = play.folder / "slept"
    began = time.monotonic()
    answer = play.lab.start(POINT, once=str(slept)).answer()
    assert slept.exists(), "the task was not killed"
    assert (answer.error, answer.batches) == (None, 1), answer
    return Told("Spark tried the task again, the run went on", recovery_seconds=time.monotonic() - began)


def _client_died(play: Play) -> Told:
    with _task_stopped(play) as client:
        client.kill()
        told = put_right("the client died, its task slept on", play)
    late = _written_late(play)
    play.produce_batch()
    closed = put_right("", play, was_read=False, clock=CLOSING)
    happened = f"{told.happened}; it woke and wrote {late} more files, swept at the closing"
    return replace(told, happened=happened, recovery_seconds=told.recovery_seconds + closed.recovery_seconds)


def _speculated(play: Play) -> Told:
    with _task_stopped(play) as client:
        answer = client.answer()
        assert (answer.error, answer.batches) == (None, 1), answer
    late = _written_late(play)
    for path in play.lab.stray_files():
        os.utime(path, times=(time.time() - DAYS_SECONDS,) * 2)
    play.work("orphans")
    return Told(f"Spark ran the task again, the run went on; the first woke, its {late} files were orphans")


def _written_late(play: Play) -> int:
    """How many files a task that was woken has written: whoever swept could not know of them."""
    deadline = time.monotonic() + WOKEN_SECONDS
    while (late := len(play.lab.stray_files())) < LATE_FILES:
        assert time.monotonic() < deadline, f"it was woken and has written {late} files"
        time.sleep(0.1)
    return late


@contextmanager
def _task_stopped(play: Play) -> Iterator[DrainProcess]:
    """A drain, one of whose tasks stands still; in the end that one goes on."""
    slept = play.folder / "slept"
    client = play.lab.start(POINT, signal.SIGSTOP, once=str(slept))
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


CASES = (
    TaskCase(
        "task-retried",
        "a task's process is killed in the middle of its split",
        "Spark tries it again; what the first try wrote is swept",
        _tried_again,
    ),
    TaskCase(
        "task-speculated",
        "a task stands still, Spark runs it a second time, it wakes",
        f"{CHANGES_NOTHING}; what it then writes goes with other orphans",
        _speculated,
        conf=SPECULATION,
    ),
    TaskCase(
        "client-died",
        "the client of a Spark Connect job is killed, its task wakes after the replacement's commit",
        f"{CHANGES_NOTHING}; what it then writes is swept an hour later",
        _client_died,
        may_read_again=(BATCH,),
        conf=PATIENT,
    ),
)
