"""Child processes with records, so that another process can find and stop them by identity.

A record has pid, start time and boot id, so that a reused pid is never signalled. Every child leads a process
group, and the whole group is stopped.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import psutil

from spark_jobs.protocol.errors import fault

# Linux hands out ports from 32,768 on, macOS from 49,152.
SERVER_PORTS = range(20_000, 32_000)

_POLL_SECONDS = 0.05
_KILL_GRACE_SECONDS = 5.0

# The watcher's standard input is a pipe that only the parent holds open: its end is the parent's end,
# however it died. It needs no Linux-only call, and `exec` keeps the server's pid the recorded one.
_WATCHED = """
exec 3<&0
( trap '' TERM INT HUP; cat <&3 >/dev/null; kill -TERM -$$; sleep 5; kill -KILL -$$ ) 2>/dev/null &
exec "$@" 3<&- </dev/null
"""


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """Identity of a process: the same pid with another start time or boot is another process."""

    name: str
    pid: int
    started: str
    boot: str
    log_path: str


@dataclass(frozen=True, slots=True)
class ServerFolder:
    """Folders of one server; servers under one ``root`` share folders of records and logs."""

    root: Path
    name: str

    @property
    def home(self) -> Path:
        """Return the folder of the server's files."""
        return self.root / self.name

    @property
    def record_path(self) -> Path:
        """Return the path of the process record."""
        return self.root / "run" / f"{self.name}.json"

    @property
    def log_path(self) -> Path:
        """Return the path of the log of standard output and error."""
        return self.root / "logs" / f"{self.name}.log"


class ServerProcess:
    """A child process with its record; it does not outlive this process.

    With ``prints`` its standard output is this process's, and only its standard error goes to the log.
    """

    def __init__(
        self,
        folder: ServerFolder,
        command: Sequence[str],
        environment: Mapping[str, str],
        working_folder: Path | None = None,
        *,
        prints: bool = False,
    ) -> None:
        self._folder = folder
        self._child, self._lifeline = _spawn(
            folder, command, environment, working_folder or folder.home, prints=prints
        )
        self.record = record_of(self._child.pid, folder)
        draft = folder.record_path.with_name(f".{folder.name}.{os.getpid()}")
        draft.write_text(json.dumps(asdict(self.record)))
        draft.replace(folder.record_path)

    @property
    def pid(self) -> int:
        """Return the server's pid, which is also its process group id."""
        return self.record.pid

    @property
    def is_running(self) -> bool:
        """True if the child is running."""
        return self._child.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Return the child's exit code, None while it runs."""
        return self._child.poll()

    def wait_until(self, is_ready: Callable[[], bool], timeout_seconds: float) -> None:
        """Wait until ready; on failure stop the child and raise ``RetryableError`` with its last log line."""
        deadline = time.monotonic() + timeout_seconds
        while not is_ready():
            if not self.is_running:
                self._fail(f"{self.record.name} ended while starting (exit code {self._child.returncode})")
            if time.monotonic() > deadline:
                self._fail(
                    f"{self.record.name} was not ready after {timeout_seconds:.0f} s, and its log ends with"
                )
            time.sleep(_POLL_SECONDS)

    def stop(self, grace_seconds: float = 10.0) -> None:
        """Send SIGTERM to the group, SIGKILL after the grace period; delete the record. Idempotent."""
        _stop_group(self.pid, lambda: self.is_running, grace_seconds)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(_KILL_GRACE_SECONDS)
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        _forget(self._folder, self.record)

    def kill(self) -> None:
        """Kill the group at once, like a crash; keep the record."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._child.wait()

    def _fail(self, message: str) -> None:
        self.stop(grace_seconds=2.0)
        raise fault(
            "server-start", message=message, why=last_line(self._folder.log_path), log=self._folder.log_path
        )


def read_record(folder: ServerFolder) -> ProcessRecord | None:
    """Return the record of the server, running or not."""
    try:
        return ProcessRecord(**json.loads(folder.record_path.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        # Written by rename, so never half: none, or another version's record, of which we know no process.
        return None


def record_of(pid: int, folder: ServerFolder) -> ProcessRecord:
    """Return the record of a process that writes to the log of ``folder``."""
    started = _start_time(pid) or "ended"
    return ProcessRecord(folder.name, pid, started, _boot(), str(folder.log_path))


def is_alive(record: ProcessRecord) -> bool:
    """True if the recorded process itself still runs."""
    return record.boot == _boot() and _start_time(record.pid) == record.started


def stop_recorded(folder: ServerFolder, grace_seconds: float = 10.0) -> bool:
    """Stop the recorded process and delete the record; return False if it did not run."""
    record = read_record(folder)
    if record is None:
        return False
    was_alive = is_alive(record)
    if was_alive:
        _stop_group(record.pid, lambda: is_alive(record), grace_seconds)
    _forget(folder, record)
    return was_alive


def free_ports(count: int) -> tuple[int, ...]:
    """Return distinct loopback ports that were free a moment ago.

    They are below the range that systems assign to clients, which could take one before a server binds it.
    """
    candidates = random.SystemRandom().sample(SERVER_PORTS, k=100 + count)
    free = tuple(islice(filter(_is_free, candidates), count))
    if len(free) < count:
        raise fault(
            "no-free-port", count=count, tried=len(candidates), first=SERVER_PORTS[0], last=SERVER_PORTS[-1]
        )
    return free


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def is_listening(port: int, host: str = "127.0.0.1") -> bool:
    """True if a process accepts connections on the port."""
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def has_clients(pid: int, port: int) -> bool:
    """True if a connection to the process's port is open."""
    try:
        connections = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return False
    return any(
        each.laddr and each.laddr.port == port and each.status == psutil.CONN_ESTABLISHED
        for each in connections
    )


def last_line(log_path: Path) -> str:
    """Return the last line of a log that mentions an error, else its last line."""
    try:
        lines = [line.strip() for line in log_path.read_text(errors="replace").splitlines()[-200:]]
    except FileNotFoundError:
        return "no log was written"
    lines = [line for line in lines if line]
    telling = [
        line for line in lines if not line.startswith("at ") and ("Exception" in line or "ERROR" in line)
    ]
    return (telling or lines or ["the log is empty"])[-1]


def _spawn(
    folder: ServerFolder,
    command: Sequence[str],
    environment: Mapping[str, str],
    working_folder: Path,
    *,
    prints: bool,
) -> tuple[subprocess.Popen[bytes], int | None]:
    for made in (folder.record_path.parent, folder.log_path.parent, working_folder):
        made.mkdir(parents=True, exist_ok=True)
    stdin, lifeline = os.pipe()
    try:
        with folder.log_path.open("ab") as log:
            child = subprocess.Popen(
                ["/bin/sh", "-c", _WATCHED, folder.name, *command],
                stdin=stdin,
                stdout=None if prints else log,
                stderr=log,
                cwd=working_folder,
                env=dict(environment),
                start_new_session=True,
            )
    finally:
        os.close(stdin)
    return child, lifeline


def _stop_group(pid: int, is_running: Callable[[], bool], grace_seconds: float) -> None:
    for number, seconds in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, _KILL_GRACE_SECONDS)):
        # The second round also ends members that outlived their leader.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)
        deadline = time.monotonic() + seconds
        while is_running() and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)


def _forget(folder: ServerFolder, record: ProcessRecord) -> None:
    if read_record(folder) == record:
        folder.record_path.unlink(missing_ok=True)


def _start_time(pid: int) -> str | None:
    """Return the process's start in seconds since boot; None if it does not exist or is a zombie.

    Both clocks change when the time is set, but their difference does not.
    """
    try:
        process = psutil.Process(pid)
        is_zombie = process.status() == psutil.STATUS_ZOMBIE
        return None if is_zombie else f"{process.create_time() - psutil.boot_time():.2f}"
    except psutil.Error:  # or somebody else's
        return None


def _boot() -> str:
    boot_id = Path("/proc/sys/kernel/random/boot_id")
    return boot_id.read_text().strip() if boot_id.exists() else f"{psutil.boot_time():.0f}"
