"""Dagster's code servers: one process per location, shared by daemon and webserver.

Otherwise each would start its own, and the daemon a new one every minute, for some four seconds of CPU and
200 MB. ``reload`` makes it load changed code; its running runs continue.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import socket
import stat
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from servers.process import ServerFolder, ServerProcess
from spark_jobs import WITHIN
from spark_jobs.protocol.errors import fault

MODULE = f"{WITHIN}orchestration.definitions"
LOAD_SECONDS = 120.0
SOCKET_VARIABLE = "DAGSTER_CODE_SERVER_SOCKET"  # Dagster's
# A socket's path has 103 bytes at most on macOS, 107 on Linux; locations have short names.
LONGEST_FOLDER = 80


@dataclass(frozen=True, slots=True)
class CodeServer:
    """Process of one location; it answers at ``socket``, which only this user can reach."""

    location: str
    process: ServerProcess
    socket: Path

    def is_ready(self) -> bool:
        """True once its definitions are loaded or have failed to load; the UI shows the reason.

        It binds the socket only then.
        """
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(self.socket)) == 0


def is_code_server() -> bool:
    """True in the process of ``up`` that loads the definitions; False in a run that it spawned."""
    return SOCKET_VARIABLE in os.environ and multiprocessing.parent_process() is None


def process_name(location: str) -> str:
    """Return the process name of a location, for its record and log."""
    return f"dagster-code-{location}"


def start_code_server(
    home: Path, location: str, environment: Mapping[str, str], working_folder: Path
) -> CodeServer:
    """Start a code server without waiting. Raises ``ConfigError`` if another user owns the socket folder."""
    path = socket_folder(home) / location
    path.unlink(missing_ok=True)
    command = [sys.executable, "-m", "dagster", "code-server", "start"]
    command += ["--use-python-environment-entry-point", "--location-name", location, "-m", MODULE]
    command += ["--log-level", "warning"]
    # In a variable, so that the sensor of topics finds it too.
    environment = {**environment, SOCKET_VARIABLE: str(path)}
    process = ServerProcess(ServerFolder(home, process_name(location)), command, environment, working_folder)
    return CodeServer(location, process, path)


def socket_folder(home: Path) -> Path:
    """Create the folder for sockets: in the state folder, unless its path is too long."""
    inside = home.resolve() / "run" / "sockets"
    if len(os.fsencode(inside)) > LONGEST_FOLDER:
        return temporary_folder(home)
    inside.parent.mkdir(parents=True, exist_ok=True)
    return _private(inside)


def temporary_folder(home: Path) -> Path:
    """Create a temporary folder for this state folder, whose path may be too long or read-only."""
    digest = hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:12]
    return _private(Path(tempfile.gettempdir()) / f"sluice-{os.getuid()}-{digest}")


def _private(folder: Path) -> Path:
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise fault("socket-folder", folder=folder)
    return folder


def write_workspace(file: Path, servers: tuple[CodeServer, ...]) -> None:
    """Write the workspace file for daemon and webserver."""
    entries = [{"grpc_server": {"socket": str(one.socket), "location_name": one.location}} for one in servers]
    file.write_text(json.dumps({"load_from": entries}))
