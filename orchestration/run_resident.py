"""``sluice-runs``: the process that runs are forked from, with what they import and the definitions loaded.

It opens no connection, instance or session and starts no thread: a fork would leave them halfway. Threads and
descriptors are counted before each fork; with one too many the run is spawned. A reload replaces the program
by itself (``exec``): it stays the parent of the runs under way, and who asks meanwhile waits. After a time
without work a small program takes its place. All are one process group, so that whoever stops it stops the
runs.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from math import inf
from pathlib import Path
from typing import NoReturn

from dagster import DagsterInstance, DagsterRunStatus

from servers.private_dagster import execute_run, load_migrations
from servers.runs import MOST_BYTES, READY, RENEW, WOKEN
from servers.runs_asleep import ASLEEP, AWAKE, become
from spark_jobs import WITHIN

# What runs import when they get there, and the definitions leave out.
_LATER = (
    "dagster._cli.api",
    f"{WITHIN}resources.spark_session",
    *(f"{WITHIN}spark_jobs.{name}" for name in ("drain.drain", "audit.audit", "lake.sql_catalog")),
    *(f"{WITHIN}spark_jobs.{name}" for name in ("monitoring.checkup", "upkeep.read_figures")),
)
_CLIENT_SECONDS = 10.0
# They come by the clock and are not work that it stays awake for.
_REGULAR_JOBS = frozenset({"checks", "event_log_upkeep"})


class _Stopped(BaseException):
    """SIGTERM came."""


@dataclass(slots=True)
class Resident:
    """Its runs under way by pid; those that report a dead run's end have no id."""

    listener: socket.socket
    runs: dict[int, str]
    is_woken: bool = False  # until it has answered once
    refusal: str = ""
    sleep_after_seconds: float = 0.0
    worked_at: float = -inf
    regular: set[int] = field(default_factory=set)
    exit_code: int = 0
    wake: tuple[socket.socket, socket.socket] = field(default_factory=socket.socketpair)

    def serve(self) -> None:
        """Fork and report until SIGTERM, or sleep."""
        wake, told = self.wake
        for each in self.wake:
            each.setblocking(False)
        signal.set_wakeup_fd(told.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.reap()  # those that ended during the reload
        while readable := select.select([self.listener, wake], [], [], self._seconds_left())[0]:
            if wake in readable:
                wake.recv(MOST_BYTES)
                self.reap()
            if self.listener in readable:
                client, _ = self.listener.accept()
                with client, contextlib.suppress(OSError):
                    client.settimeout(_CLIENT_SECONDS)
                    self._answer(client)
        become(ASLEEP, self.listener)

    def _seconds_left(self) -> float | None:
        """Return for how long it stays awake without work; None while runs are under way."""
        return None if self.runs else max(0.0, self.worked_at + self.sleep_after_seconds - time.monotonic())

    def load(self) -> None:
        """Import and build all, and take it out of the garbage collector's work."""
        try:
            loaded = import_module(f"{WITHIN}orchestration.definitions")
            self.sleep_after_seconds = loaded.defs.resources["sluice"].config.spark.sleep_after_seconds
            loaded.defs.get_repository_def().load_all_definitions()
        except Exception as error:  # noqa: BLE001  (the spawned run will say it all)
            self.refusal = f"the definitions could not be loaded: {error}"
        for name in _LATER:
            import_module(name)
        load_migrations()
        gc.freeze()

    def end(self) -> None:
        """End without Python's clearing of the heap, which costs as much as a small drain if it is large."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(self.exit_code)

    def wait(self) -> None:
        """Wait for the runs, which had the signal too: it went to the group."""
        for pid in self.runs:
            os.waitpid(pid, 0)

    def _answer(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):  # who wants it renewed is gone
            ready = WOKEN if self.is_woken else READY
            client.send((self.refusal or self.halfway(client)).encode() or ready)
        request = client.recv(MOST_BYTES)
        was_woken, self.is_woken = self.is_woken, False
        if request == RENEW:
            if not was_woken:
                self._renew()
            # It was woken by this, and has loaded the definitions since: runs are likely to follow.
            self.worked_at = time.monotonic()
        elif request:
            run_id, job, arguments = request.decode().split(" ", 2)
            pid = self.fork(run_id, partial(execute_run, arguments), client)
            self.regular |= {pid} if job in _REGULAR_JOBS else set()
            client.send(str(pid).encode())

    def halfway(self, *clients: socket.socket) -> str:
        """Return what a fork would leave halfway: a thread, or a descriptor that both would use."""
        threads = sorted(path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm"))
        if len(threads) > 1:
            return f"the process that forks runs has {len(threads)} threads: {', '.join(threads)}"
        ours = {"0", "1", "2", *(str(each.fileno()) for each in (self.listener, *self.wake, *clients))}
        # What the listing itself had open is gone when it is read.
        entries = [entry for entry in list(Path("/proc/self/fd").iterdir()) if entry.is_symlink()]
        others = sorted(str(entry.readlink()) for entry in entries if entry.name not in ours)
        return f"the process that forks runs has open: {', '.join(others)}" if others else ""

    def fork(self, run_id: str, work: Callable[[], None], *clients: socket.socket) -> int:
        """Return the pid of a fork that does the work and ends."""
        if pid := os.fork():
            self.runs[pid] = run_id
            return pid
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        for each in (self.listener, *self.wake, *clients):
            each.close()
        self.exit_code = _exit_code_of(work)
        sys.exit(self.exit_code)

    def reap(self) -> None:
        """Forget the runs that ended; a fork records the end of those that died."""
        for pid, run_id in list(self.runs.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            del self.runs[pid]
            if pid not in self.regular:
                self.worked_at = time.monotonic()
            self.regular.discard(pid)
            if run_id and status and not self.halfway():
                self.fork("", partial(_end_dead_run, run_id, pid, os.waitstatus_to_exitcode(status)))

    def _renew(self) -> NoReturn:
        become(AWAKE, self.listener, "renewed", *(f"{pid}:{run_id}" for pid, run_id in self.runs.items()))


def main(listening: str, how: str, *runs: str) -> None:
    """Run until SIGTERM or sleep; a forked run leaves this too. The runs are those from before a reload."""
    by_pid = {int(pid): run_id for pid, run_id in (run.split(":") for run in runs)}
    worked_at = -inf if how == "woken" else time.monotonic()
    resident = Resident(socket.socket(fileno=int(listening)), by_pid, how == "woken", worked_at=worked_at)
    atexit.register(resident.end)  # before all others, so it runs after them
    signal.signal(signal.SIGTERM, _stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    try:
        resident.load()
        resident.serve()
    except _Stopped:
        resident.wait()


def _stop(*_: object) -> NoReturn:
    raise _Stopped


def _exit_code_of(work: Callable[[], None]) -> int:
    try:
        work()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001  (the process ends with it)
        traceback.print_exc()
        return 1
    return 0


def _end_dead_run(run_id: str, pid: int, code: int) -> None:
    """Record the end of a run whose process died, unless it had recorded one itself."""
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    with DagsterInstance.get() as instance:
        run = instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            return
        is_cancelled = run.status is DagsterRunStatus.CANCELING
        report = instance.report_run_canceled if is_cancelled else instance.report_run_failed
        report(run, f"The process of this run ({pid}) {how}.")


if __name__ == "__main__":
    main(*sys.argv[1:])
