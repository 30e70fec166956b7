"""Dagster's daemon and webserver with their own home folder and shared code servers.

Nothing here imports Dagster: what has to be asked of it is asked by ``servers.dagster_calls``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from servers.code_server import LOAD_SECONDS, CodeServer, socket_folder, start_code_server, write_workspace
from servers.environment import sluice_environment
from servers.listener import INSECURE, refuse_taken, url_of
from servers.private_dagster import forks_here
from servers.process import ServerFolder, ServerProcess, is_alive, is_listening, read_record
from servers.runs import SOCKET_VARIABLE, RunResident, runs_socket, start_resident
from spark_jobs.config.listener import Address, UiSettings
from spark_jobs.protocol.errors import fault

DAEMON = "dagster-daemon"
WEBSERVER = "dagster-webserver"
LOCATION = "sluice"
PROJECT = Path(__file__).resolve().parents[1]
INSTANCE_SETTINGS = PROJECT / "orchestration" / "dagster.yaml"

FAILED_RUNS = "runs that were left over and failed: "
_START_TIMEOUT_SECONDS = 120.0
_GRACE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class DagsterSettings:
    """Settings of Dagster's servers; ``config_path`` None means the built-in defaults.

    ``ui`` is the configuration's, for which the webserver itself looks there; its port gives way to ``port``.
    Each of the ``locations`` loads all definitions, and so has sensors of its own.
    """

    sluice_home: Path
    config_path: Path | str | None
    port: int
    ui: UiSettings = field(default_factory=UiSettings)
    locations: tuple[str, ...] = (LOCATION,)
    forks: bool = field(default_factory=forks_here)

    @property
    def dagster_home(self) -> Path:
        """Return the instance's folder with settings, database and logs."""
        return self.sluice_home / "dagster"

    @property
    def workspace_path(self) -> Path:
        """Return the workspace file with the addresses of the code servers."""
        return socket_folder(self.sluice_home) / "workspace.yaml"

    @property
    def address(self) -> Address:
        """Return the address that the webserver listens on."""
        return Address(self.ui.listen.host, self.port)


@dataclass(frozen=True, slots=True)
class DagsterServers:
    """Dagster's processes; the webserver answers at ``url``, ``failed_runs`` are those a dead daemon left."""

    url: str
    daemon: ServerProcess
    webserver: ServerProcess
    code_servers: tuple[CodeServer, ...]
    resident: RunResident | None
    failed_runs: int

    @property
    def sockets(self) -> tuple[Path, ...]:
        """Return the sockets of the processes that load the definitions."""
        return tuple(each.socket for each in (*self.code_servers, self.resident) if each)

    def reload(self) -> None:
        """Reload the definitions from the current configuration."""
        for code_server in self.code_servers:
            subprocess.run(_typed_call("reload", code_server.socket), check=True)

    def stop(self, grace_seconds: float = _GRACE_SECONDS) -> None:
        """Stop all processes; running runs are interrupted and stop their Spark work."""
        self.daemon.stop(grace_seconds)
        self.webserver.stop(grace_seconds)
        for each in (*self.code_servers, self.resident):
            if each:
                each.process.stop(grace_seconds)

    def kill(self) -> None:
        """Kill all processes, including running runs."""
        loaded = (each.process for each in (*self.code_servers, self.resident) if each)
        for process in (self.daemon, self.webserver, *loaded):
            process.kill()


def start_dagster(settings: DagsterSettings) -> DagsterServers:
    """Start all processes and wait until the webserver answers and the daemon's sensor loop runs.

    Raises ``ConfigError``: ``port-taken``, or ``already-running`` for a daemon on this state folder.
    """
    _refuse(settings)
    prepare_dagster_home(settings.dagster_home)
    processes: list[ServerProcess] = []
    with _asking(settings) as (asked, failed_runs):
        home, environment = settings.dagster_home, _environment(settings)
        try:
            # It makes a new database, which processes that start at once would each make.
            asked.wait_until(lambda: failed_runs() is not None, _START_TIMEOUT_SECONDS)
            code_servers = tuple(
                start_code_server(settings.sluice_home, location, environment, home)
                for location in settings.locations
            )
            processes += [one.process for one in code_servers]
            for one in code_servers:
                one.process.wait_until(one.is_ready, LOAD_SECONDS)
            resident = start_resident(settings.sluice_home, environment, home) if settings.forks else None
            processes += [resident.process] if resident else []
            write_workspace(settings.workspace_path, code_servers)
            workspace = ["-w", str(settings.workspace_path)]
            daemon = _start(settings, DAEMON, ["-m", f"{__package__}.daemon", "run", *workspace])
            where = [*workspace, "-h", settings.address.host, "-p", str(settings.port)]
            # Whether it may be open was judged where ``--insecure`` was typed, or not.
            typed = ["-m", f"{__package__}.webserver", INSECURE, *where]
            webserver = _start(settings, WEBSERVER, typed)
            processes += (daemon, webserver)
            here = settings.address.from_here
            webserver.wait_until(lambda: is_listening(here.port, here.host), _START_TIMEOUT_SECONDS)
            daemon.wait_until(lambda: not asked.is_running, _START_TIMEOUT_SECONDS)
            asked.wait_until(lambda: asked.exit_code == 0, 0)
        except BaseException:
            for process in reversed(processes):
                process.stop(_GRACE_SECONDS)
            raise
    url = url_of(settings.ui, settings.address)
    return DagsterServers(url, daemon, webserver, code_servers, resident, failed_runs() or 0)


@contextmanager
def _asking(settings: DagsterSettings) -> Iterator[tuple[ServerProcess, Callable[[], int | None]]]:
    """Yield the process that fails left-over runs and ends when the sensors run, and how many it failed."""
    folder = ServerFolder(settings.sluice_home, f"{DAEMON}-start")
    said_before = folder.log_path.stat().st_size if folder.log_path.exists() else 0

    def failed_runs() -> int | None:
        said = folder.log_path.read_bytes()[said_before:].decode(errors="replace")
        lines = [line for line in said.splitlines(keepends=True) if line.startswith(FAILED_RUNS)]
        return int(lines[-1].removeprefix(FAILED_RUNS)) if lines and lines[-1].endswith("\n") else None

    command, home = _typed_call("start", settings.dagster_home), settings.dagster_home
    asked = ServerProcess(folder, command, _environment(settings), home)
    try:
        yield asked, failed_runs
    finally:
        asked.stop(_GRACE_SECONDS)


def _typed_call(what: str, where: Path) -> list[str]:
    return [sys.executable, "-m", f"{__package__}.dagster_calls", what, str(where)]


def prepare_dagster_home(folder: Path) -> None:
    """Create the instance's folder; an existing settings file is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / INSTANCE_SETTINGS.name
    if not target.exists():
        shutil.copyfile(INSTANCE_SETTINGS, target)


def _refuse(settings: DagsterSettings) -> None:
    record = read_record(ServerFolder(settings.sluice_home, DAEMON))
    if record is not None and is_alive(record):
        raise fault("already-running", pid=record.pid)
    refuse_taken(settings.address)


def _start(settings: DagsterSettings, name: str, arguments: list[str]) -> ServerProcess:
    # The working folder holds no code: nothing in it can shadow our packages.
    folder, command = ServerFolder(settings.sluice_home, name), [sys.executable, *arguments]
    return ServerProcess(folder, command, _environment(settings), settings.dagster_home)


def _environment(settings: DagsterSettings) -> dict[str, str]:
    environment = sluice_environment(settings.sluice_home, settings.config_path)
    if settings.forks:
        environment[SOCKET_VARIABLE] = str(runs_socket(settings.sluice_home))
    return environment | {"DAGSTER_HOME": str(settings.dagster_home)}
