"""Dagster's own three processes with an empty code location: what ``up`` cannot be below."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from servers.process import free_ports, is_listening

_EMPTY = "from dagster import Definitions\n\ndefs = Definitions()\n"
_WORKSPACE = "load_from: [{{grpc_server: {{socket: {socket}, location_name: empty}}}}]\n"
_READY_SECONDS = 300.0
_POLL_SECONDS = 0.2


@contextmanager
def bare_dagster(folder: Path) -> Iterator[tuple[int, ...]]:
    """Yield the process ids of code server, daemon and webserver once they answer."""
    folder.mkdir()
    (folder / "dagster.yaml").write_text("telemetry: {enabled: false}\nnux: {enabled: false}\n")
    (folder / "empty.py").write_text(_EMPTY)
    socket, workspace, (port,) = folder / "socket", folder / "workspace.yaml", free_ports(1)
    workspace.write_text(_WORKSPACE.format(socket=socket))
    code = ["dagster", "api", "grpc", "--python-file", "empty.py", "--socket", str(socket)]
    daemon = ["dagster._daemon", "run", "-w", str(workspace)]
    webserver = ["dagster_webserver", "-h", "127.0.0.1", "-p", str(port), "-w", str(workspace)]
    started: list[subprocess.Popen[bytes]] = []
    with (folder / "log").open("wb") as log:

        def start(words: list[str]) -> None:
            environment = os.environ | {"DAGSTER_HOME": str(folder)}
            command = [sys.executable, "-m", *words]
            started.append(subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log))

        try:
            start(code)
            _wait(socket.exists)
            start(daemon)
            start(webserver)
            _wait(lambda: is_listening(port))
            yield tuple(process.pid for process in started)
        finally:
            for process in started:  # nothing of it is kept
                process.kill()
                process.wait()


def _wait(is_ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not is_ready():
        if time.monotonic() > deadline:
            raise RuntimeError(f"Dagster was not ready in {_READY_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)
