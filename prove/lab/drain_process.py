"""A piece of work in its own process, which can be killed, stopped and continued."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import time
import traceback
import uuid
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from operator import add
from pathlib import Path

from prove.lab.counted_reads import CountedReads
from prove.lab.forked import fork
from prove.lab.patience import Patience
from prove.lab.tasks_here import tasks_here
from resources.sluice import open_connections
from spark_jobs.acts.accept_source import accept_restart, accept_source, compare_source, find_restart
from spark_jobs.acts.act import pause, resume, settle, skip
from spark_jobs.acts.held_batches import discard, publish
from spark_jobs.acts.rollback import rollback
from spark_jobs.books.fold import checkpoint
from spark_jobs.config.file import load_config
from spark_jobs.config.quantities import Start
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import Connections, load_fresh
from spark_jobs.drain.drain import drain
from spark_jobs.export.export import export
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.protocol.work import FailPoints
from spark_jobs.recovery.decide import RecoveryResult
from spark_jobs.replay.ranges import parse_range
from spark_jobs.replay.rebuild import rebuild
from spark_jobs.replay.redrive import redrive
from spark_jobs.replay.redrive_plan import Selection
from spark_jobs.replay.replay import replay
from spark_jobs.reshape.retype import retype
from spark_jobs.upkeep.registry import BY_NAME
from spark_jobs.upkeep.upkeep import run_upkeep

FINISH_SECONDS = 120.0
UNNAMED = "unnamed"


@dataclass(frozen=True, slots=True)
class Repairs:
    """Repairs done by work: numbers of attempts, and in ``committed`` of its own batches.

    ``found_landed`` are attempts that were found to have landed, ``folded`` those that left the log for the
    books.
    """

    adopted: int = 0
    found_landed: int = 0
    swept: int = 0
    held: int = 0
    folded: int = 0
    committed: int = 0

    def __str__(self) -> str:
        numbers = asdict(self)
        return ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in numbers.items() if number)

    def __add__(self, other: Repairs) -> Repairs:
        return Repairs(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class Answer:
    """End of the work: its repairs, or its named error's code in ``error``.

    An error without a name, which is a defect, is ``UNNAMED`` and its traceback the message.
    ``records_read`` is what its tasks read, however it ended.
    """

    error: str | None = None
    message: str = ""
    repairs: Repairs = field(default_factory=Repairs)
    records_read: int = 0

    @property
    def named_error(self) -> str | None:
        """Return the error's code; an unnamed error is a defect under any fault."""
        assert self.error != UNNAMED, self.message
        return self.error


@dataclass(frozen=True, slots=True)
class DrainProcess:
    """Work in progress, mostly a drain; on a signal it writes its stack below ``folder``."""

    process: ForkServerProcess
    receiver: Connection
    folder: Path

    @property
    def pid(self) -> int:
        """Return the process's id."""
        assert self.process.pid is not None
        return self.process.pid

    def died_of(self) -> int | None:
        """Wait for the end; return the signal's number, or None for a normal end."""
        self.process.join(FINISH_SECONDS)
        code = self.process.exitcode
        assert code is not None, "the work did not end"
        return -code if code < 0 else None

    def last_words(self) -> str:
        """Return the output of an ended process, for unexpected ends."""
        return str(self.receiver.recv()) if self.process.exitcode == 0 and self.receiver.poll() else "nothing"

    def answer(self) -> Answer:
        """Wait for work that ends by itself."""
        answer = self.ending()
        assert answer is not None, f"signal {self.died_of()} ended the work"
        return answer

    def ending(self) -> Answer | None:
        """Wait for any end; return None if it was a signal."""
        assert self.receiver.poll(FINISH_SECONDS), f"the work did not end, it is here:\n{self._stacks()}"
        try:
            answer: Answer = self.receiver.recv()
        except EOFError:
            assert self.died_of() is not None, f"it ended without an answer, {self.process.exitcode}"
            return None
        self.process.join(FINISH_SECONDS)
        return answer

    def wait_until_stopped(self) -> None:
        """Wait until SIGSTOP has stopped it."""
        deadline = time.monotonic() + FINISH_SECONDS
        while not self._state().startswith("T"):
            assert self.process.is_alive(), f"it ended: {self.answer() if self.receiver.poll() else '?'}"
            assert time.monotonic() < deadline, "the fail point was not reached"
            time.sleep(0.05)

    def sleeps_or_ended(self) -> bool:
        """Wait until SIGSTOP has stopped it (True), or it has ended (False)."""
        while not (is_asleep := self._state().startswith("T")) and self.process.is_alive():
            time.sleep(0.05)
        return is_asleep

    def go_on(self) -> None:
        """Continue it after SIGSTOP."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill it immediately; after its end its id may be another process's."""
        if self.process.is_alive():
            self.process.kill()
        self.process.join(FINISH_SECONDS)

    def _stacks(self) -> str:
        """Return its threads' stacks; empty if it is stopped."""
        os.kill(self.pid, signal.SIGUSR1)
        time.sleep(1)
        return _stacks_of(self.folder, self.pid).read_text()

    def _state(self) -> str:
        asked = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(self.pid)], capture_output=True, text=True, check=False
        )
        return asked.stdout.strip()


@dataclass(frozen=True, slots=True)
class Work:
    """A piece of work and its circumstances.

    ``name`` is ``drain``, ``checkpoint``, ``pause``, ``resume``, ``publish``, ``discard``, ``accept`` (of a
    source that changed, or a mirror's that began anew),
    ``rollback`` (the last commit of main), ``redrive``,
    ``rebuild``, ``replay 0:10-20``, ``skip 0:10-20``,
    ``retype id long``, ``export keep`` or ``export renumber``, or a kind of upkeep. ``is_here``: tasks run in
    the process instead of on Spark.
    ``clock_seconds`` is how far its clock is ahead of the machine's.
    """

    name: str = "drain"
    is_here: bool = False
    patience: Patience = field(default_factory=Patience)
    clock_seconds: int = 0


def start_work(path: Path, pipeline: str, fail_points: FailPoints, work: Work) -> DrainProcess:
    """Start the work on the file's pipeline; ``fail_points`` are sent to the process."""
    process, receiver = fork(_run, path, pipeline, fail_points, work)
    return DrainProcess(process, receiver, path.parent)


def exported(topic: str) -> str:
    """Return the topic that an export of this archive fills."""
    return f"{topic}-exported"


def _stacks_of(folder: Path, pid: int) -> Path:
    return folder / f"stacks-{pid}.txt"


def _run(sender: Connection, path: Path, pipeline_name: str, fail_points: FailPoints, work: Work) -> None:
    stacks = _stacks_of(path.parent, os.getpid()).open("w")  # kept open for as long as the process lives
    faulthandler.register(signal.SIGUSR1, stacks)
    work.patience.impose()
    if work.clock_seconds:
        _set_clock(work.clock_seconds)
    config = load_config(path)
    pipeline = next(p for p in config.pipelines if p.name == pipeline_name)
    kind = "upkeep" if work.name in BY_NAME else "drain"
    reads = CountedReads(fail_points, path.parent / f"read-{uuid.uuid4().hex}.txt")
    try:
        with open_connections(config, pipeline.name, kind=kind, actor="test", run_id="test") as plain:
            connections = replace(plain, fail_points=reads)
            there = tasks_here(connections) if work.is_here else connections
            answer = Answer(repairs=_do(work.name, pipeline, there))
    except SluiceError as error:
        answer = Answer(error.code, str(error))
    except Exception:  # noqa: BLE001  (told by the process that waits)
        answer = Answer(UNNAMED, traceback.format_exc())
    sender.send(replace(answer, records_read=reads.records()))


def _set_clock(seconds: int) -> None:
    """Shift this process's clock permanently; durations are not affected."""
    now, now_ns = time.time, time.time_ns
    time.time = lambda: now() + seconds
    time.time_ns = lambda: now_ns() + seconds * 1_000_000_000


def _do(name: str, pipeline: PipelineConfig, connections: Connections) -> Repairs:
    if name in BY_NAME:
        run_upkeep(BY_NAME[name], pipeline, connections)
        return Repairs()
    if name.startswith("replay "):
        again = replay(pipeline, connections, [parse_range(name[7:])], reason="test")
        return _settled(again.recovery, committed=len(again.batches))
    if name.startswith("retype "):
        retype(pipeline, connections, *name.split()[1:], reason="test")
        return Repairs()
    if name.startswith("export "):
        export(pipeline, connections, exported(pipeline.topic), keep_offsets=name == "export keep")
        return Repairs()
    if name.startswith("skip "):
        skip(pipeline, connections, OffsetRanges((parse_range(name[5:]),)), reason="test")
        return Repairs()
    return _WORK[name](pipeline, connections)


def _drain(pipeline: PipelineConfig, connections: Connections) -> Repairs:
    result = drain(pipeline, connections, budget_seconds=60, on_progress=lambda _batch: None)
    return replace(_settled(result.recovery, committed=len(result.batches)), held=len(result.held))


def _settled(recovery: RecoveryResult, *, committed: int) -> Repairs:
    return Repairs(
        committed=committed,
        adopted=len(recovery.adopted),
        found_landed=len(recovery.marked),
        swept=len(recovery.swept),
    )


def _redrive(pipeline: PipelineConfig, connections: Connections) -> Repairs:
    sent = redrive(pipeline, connections, Selection(), reason="test")
    return _settled(sent.recovery, committed=len(sent.batches))


def _rebuild(pipeline: PipelineConfig, connections: Connections) -> Repairs:
    made = rebuild(pipeline, connections, reason="test")
    return _settled(made.recovery, committed=1)


def _checkpoint(pipeline: PipelineConfig, connections: Connections) -> Repairs:
    return Repairs(folded=checkpoint(pipeline, connections).folded_attempts)


def _publish(pipeline: PipelineConfig, connections: Connections) -> Repairs:
    publish(pipeline, connections, reason="killed")
    return Repairs(adopted=1)


def _discard(pipeline: PipelineConfig, connections: Connections) -> Repairs:
    discard(pipeline, connections, reason="killed")
    return Repairs()


def _accept(pipeline: PipelineConfig, connections: Connections) -> Repairs:
    settle(pipeline, connections, then="accept")
    seen = compare_source(pipeline, connections)
    if not seen.has_changed:
        restart = find_restart(pipeline, connections)
        if restart is None:
            return Repairs()
        accept_restart(pipeline, connections, restart, reason="killed")
        return Repairs(committed=1)
    accept_source(pipeline, connections, seen, start=Start(), reason="killed")
    return Repairs(committed=1)


def _roll_back(pipeline: PipelineConfig, connections: Connections) -> Repairs:
    table = load_fresh(connections, pipeline.table)
    current = table.current_snapshot() if table else None
    assert current is not None
    rollback(pipeline, connections, to_snapshot=current.parent_snapshot_id, reason="test")
    return Repairs()


def _pause(pipeline: PipelineConfig, connections: Connections) -> Repairs:
    pause(pipeline, connections, reason="test")
    return Repairs()


def _resume(pipeline: PipelineConfig, connections: Connections) -> Repairs:
    resume(pipeline, connections, reason="test")
    return Repairs()


_WORK: dict[str, Callable[[PipelineConfig, Connections], Repairs]] = {
    "drain": _drain,
    "redrive": _redrive,
    "rebuild": _rebuild,
    "checkpoint": _checkpoint,
    "pause": _pause,
    "resume": _resume,
    "rollback": _roll_back,
    "publish": _publish,
    "discard": _discard,
    "accept": _accept,
}
