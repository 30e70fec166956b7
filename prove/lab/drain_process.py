"""One drain as a process of its own, which tests kill, stop and continue.

Forked from a server that has everything imported and nothing opened: an import of pyspark and pyiceberg
costs more than the drains that die here.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

# Imported for the fork server, which hands them on: the product imports them when it first needs them.
import dagster_pyspark  # noqa: F401
import great_expectations  # noqa: F401
import pyspark.sql.connect.session  # noqa: F401

from resources.connections import open_connections
from spark_jobs.checkpoint_txlog import checkpoint
from spark_jobs.core.errors import SluiceError
from spark_jobs.core.replay_ranges import parse_range
from spark_jobs.core.upkeep_conditions import UpkeepKind
from spark_jobs.drain import drain
from spark_jobs.held import discard, publish
from spark_jobs.io.config_file import load_config
from spark_jobs.replay import replay
from spark_jobs.upkeep_jobs import run_upkeep

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerProcess
    from pathlib import Path

    from prove.lab.signal_at import SignalAt
    from spark_jobs.core.config import PipelineConfig
    from spark_jobs.io.connections import Connections

FINISH_SECONDS = 120.0


_OTHER_WORK: dict[str, Callable[[PipelineConfig, Connections], object]] = {
    "checkpoint": checkpoint,
    "publish": lambda pipeline, connections: publish(pipeline, connections, reason="killed"),
    "discard": lambda pipeline, connections: discard(pipeline, connections, reason="killed"),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """How a drain ended: its numbers, or its named error, whose code is ``error``."""

    error: str | None = None
    message: str = ""
    batches: int = 0
    adopted: int = 0
    lag: int = 0


@dataclass(frozen=True, slots=True)
class DrainProcess:
    """A drain under way."""

    process: ForkServerProcess
    receiver: Connection

    @property
    def pid(self) -> int:
        """The process's id."""
        assert self.process.pid is not None
        return self.process.pid

    def died_of(self) -> int | None:
        """Wait for the end; the signal's number, None for an end of its own."""
        self.process.join(FINISH_SECONDS)
        code = self.process.exitcode
        assert code is not None, "the drain did not end"
        return -code if code < 0 else None

    def answer(self) -> Answer:
        """Wait for a drain that ends by itself."""
        assert self.receiver.poll(FINISH_SECONDS), "the drain did not answer"
        answer: Answer = self.receiver.recv()
        self.process.join(FINISH_SECONDS)
        return answer

    def wait_until_stopped(self) -> None:
        """Wait until SIGSTOP holds it."""
        deadline = time.monotonic() + FINISH_SECONDS
        while not self._state().startswith("T"):
            assert self.process.is_alive(), f"it ended: {self.answer() if self.receiver.poll() else '?'}"
            assert time.monotonic() < deadline, "the fail point was not reached"
            time.sleep(0.05)

    def go_on(self) -> None:
        """Continue it after SIGSTOP."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill it where it stands."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.process.join(FINISH_SECONDS)

    def _state(self) -> str:
        asked = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(self.pid)], capture_output=True, text=True, check=False
        )
        return asked.stdout.strip()


def start_drain(path: Path, pipeline: str, fail_points: SignalAt, *, work: str = "drain") -> DrainProcess:
    """Begin a drain, ``checkpoint``, ``replay 0:10-20`` or kind of upkeep of the file's pipeline."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(path, pipeline, fail_points, work, sender), daemon=True)
    process.start()
    sender.close()
    return DrainProcess(process, receiver)


def _work(path: Path, pipeline_name: str, fail_points: SignalAt, work: str, sender: Any) -> None:
    config = load_config(path)
    pipeline = next(p for p in config.pipelines if p.name == pipeline_name)
    kind = "upkeep" if work in set(UpkeepKind) else "drain"
    try:
        with open_connections(config, pipeline.name, kind=kind, actor="test", run_id="test") as plain:
            connections = replace(plain, fail_points=fail_points)
            if work in set(UpkeepKind):
                run_upkeep(UpkeepKind(work), pipeline, connections, lambda _line: None)
                sender.send(Answer())
                return
            if work in _OTHER_WORK:
                _OTHER_WORK[work](pipeline, connections)
                sender.send(Answer())
                return
            if work.startswith("replay "):
                again = replay(pipeline, connections, [parse_range(work[7:])], reason="test")
                sender.send(Answer(batches=len(again.batches)))
                return
            result = drain(pipeline, connections, budget_seconds=60, on_progress=lambda _batch: None)
    except SluiceError as error:
        sender.send(Answer(error.code, str(error)))
    else:
        sender.send(Answer(None, "", len(result.batches), len(result.recovery.adopted), result.lag_records))
