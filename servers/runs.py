"""Start of ``sluice-runs``, from which runs are forked, and what is asked of it."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from servers.code_server import LOAD_SECONDS, is_code_server, socket_folder
from servers.process import ServerFolder, ServerProcess
from servers.runs_asleep import ASLEEP
from spark_jobs.protocol.errors import fault

NAME = "sluice-runs"
TAG_PROCESS = ".dagster/sluice-process"  # of a forked run: the record of its process
SOCKET_VARIABLE = "SLUICE_RUNS_SOCKET"
MOST_BYTES = 1 << 17  # of a message
READY, WOKEN, RENEW = b"ready", b"woken", b"renew"
# No thread may be left halfway by a fork: neither NumPy's nor those of Arrow's allocator.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}


@dataclass(frozen=True, slots=True)
class ForkedRun:
    """The process of a run; ``was_asleep`` if what it was forked from had to load the definitions first."""

    pid: int
    was_asleep: bool


@dataclass(frozen=True, slots=True)
class RunResident:
    """The process that forks runs; it answers at ``socket``, which only this user can reach."""

    process: ServerProcess
    socket: Path


def runs_socket(home: Path) -> Path:
    """Return where the resident of this state folder listens."""
    return socket_folder(home) / "runs"


def start_resident(home: Path, environment: Mapping[str, str], working_folder: Path) -> RunResident:
    """Start it asleep, without waiting."""
    path = runs_socket(home)
    path.unlink(missing_ok=True)
    command = [sys.executable, "-m", ASLEEP, str(path)]
    process = ServerProcess(ServerFolder(home, NAME), command, {**environment, **_ONE_THREAD}, working_folder)
    return RunResident(process, path)


def renew_resident() -> None:
    """In a code server that loads the definitions: have the resident load them too."""
    path = os.environ.get(SOCKET_VARIABLE)
    if not path or not is_code_server():
        return
    with contextlib.suppress(OSError), _client() as client:
        client.connect(path)
        client.send(RENEW)


def fork_run(path: str, run_id: str, job: str, arguments: str) -> ForkedRun | str:
    """Return the forked run, or why it was not forked.

    While the definitions are loaded this waits: a spawned run would load them by itself. Raises
    ``RetryableError`` if the run may have been forked.
    """
    with _client() as client:
        try:
            client.connect(path)
            greeting = client.recv(MOST_BYTES)
        except OSError as error:
            return f"the process that forks runs does not answer: {error.strerror or error}"
        if greeting not in {READY, WOKEN}:
            return greeting.decode() or "the process that forks runs has ended"
        try:
            client.send(f"{run_id} {job} {arguments}".encode())
            return ForkedRun(int(client.recv(MOST_BYTES)), greeting == WOKEN)
        except (OSError, ValueError):  # a second process must not do the same run
            raise fault("server-start.run") from None


def _client() -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.settimeout(LOAD_SECONDS)
    return client
