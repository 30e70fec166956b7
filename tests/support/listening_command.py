"""A command that listens until it is told to stop, as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from servers.process import free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prove.lab.pipeline_lab import Lab


@contextmanager
def listening(command: str, lab: Lab, path: str = "") -> Iterator[str]:
    """Start a real `./sluice metrics` or the like; give the address, at which it must say that it is."""
    (port,) = free_ports(1)
    process = subprocess.Popen(
        [sys.executable, "-m", "cli", command, "--port", str(port), "--config", str(lab.path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=lab.path.parent,
    )
    address = f"http://127.0.0.1:{port}{path}"
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{command} at {address}\n"
        yield address
    finally:
        process.terminate()
        assert process.wait(30) == 0
