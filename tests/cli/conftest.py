"""What the command-line tests share: one real command, and a real `up`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from servers.process import free_ports
from tests.support.forked_command import run_forked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Sluice = Callable[..., "subprocess.CompletedProcess[str]"]
UP_SECONDS = 120.0
IN_BACKGROUND = """trap '' INT; exec "$@" """  # as a script starts it with an ampersand
COMMAND_SECONDS = 600.0  # the demo, twice as long as promised: the suite runs beside it


@pytest.fixture(scope="session")
def up_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state folder of the session's `up`."""
    return tmp_path_factory.mktemp("up") / "home"


@pytest.fixture(scope="session")
def sluice_up(up_home: Path) -> Iterator[subprocess.Popen[str]]:
    """A running `up` without a configuration: embedded Kafka over TLS, Spark, Dagster, sample stream."""
    log = up_home.parent / "up.out"
    ports = ("--port", "0", "--catalog-port", str(free_ports(1)[0]))
    with log.open("w") as out:
        process = subprocess.Popen(
            ["sh", "-c", IN_BACKGROUND, "up", sys.executable, "-m", "cli", "up", "--tls", *ports],
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=up_home.parent,
            env={**os.environ, "SLUICE_HOME": str(up_home)},
            text=True,
        )
    deadline = time.monotonic() + UP_SECONDS
    while "stop it with Ctrl-C" not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)
    yield process
    if process.poll() is None:
        process.terminate()
        process.wait(30)


@pytest.fixture
def sluice(tmp_path: Path) -> Sluice:
    """Run one command line as the launcher does; ``home`` is the state folder."""

    def run(
        *arguments: str, home: Path | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return run_forked(
            arguments,
            cwd=tmp_path,
            environment={**os.environ, "SLUICE_HOME": str(home or tmp_path / "home"), **environment},
            timeout_seconds=COMMAND_SECONDS,
        )

    return run
