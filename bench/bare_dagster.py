"""Dagster's own three processes with an empty code location: what ``up`` cannot be below."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from servers.process import ServerFolder, ServerProcess, free_ports, is_listening

_EMPTY = "from dagster import Definitions\n\ndefs = Definitions()\n"
_WORKSPACE = "load_from: [{{grpc_server: {{socket: {socket}, location_name: empty}}}}]\n"
_READY_SECONDS = 300.0


@contextmanager
def bare_dagster(folder: Path) -> Iterator[tuple[int, ...]]:
    """Yield the process ids of code server, daemon and webserver once they answer."""
    folder.mkdir()
    (folder / "dagster.yaml").write_text("telemetry: {enabled: false}\nnux: {enabled: false}\n")
    (folder / "empty.py").write_text(_EMPTY)
    socket, workspace, (port,) = folder / "socket", folder / "workspace.yaml", free_ports(1)
    workspace.write_text(_WORKSPACE.format(socket=socket))
    started: list[ServerProcess] = []

    def start(name: str, *words: str) -> ServerProcess:
        environment = os.environ | {"DAGSTER_HOME": str(folder)}
        command = [sys.executable, "-m", *words]
        started.append(ServerProcess(ServerFolder(folder, name), command, environment, folder))
        return started[-1]

    try:
        code = start("code", "dagster", "api", "grpc", "--python-file", "empty.py", "--socket", str(socket))
        code.wait_until(socket.exists, _READY_SECONDS)
        start("daemon", "dagster._daemon", "run", "-w", str(workspace))
        webserver = start(
            "webserver", "dagster_webserver", "-h", "127.0.0.1", "-p", str(port), "-w", str(workspace)
        )
        webserver.wait_until(lambda: is_listening(port), _READY_SECONDS)
        yield tuple(process.pid for process in started)
    finally:
        for process in started:  # nothing of it is kept
            process.kill()
