"""``python -m cli`` as a process of its own, forked from a server that has everything imported.

A command's imports take longer than the command; here they are paid once for all tests.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from prove.lab.forked import fork

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from multiprocessing.connection import Connection


def run_forked(
    arguments: Sequence[str], *, cwd: Path, environment: Mapping[str, str], timeout_seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run one command line in ``cwd`` with exactly this environment, as ``subprocess.run`` would."""
    with tempfile.TemporaryDirectory(prefix="sluice-command-") as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        process, _ = fork(_run, arguments, cwd, dict(environment), out, err)
        process.join(timeout_seconds)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(list(arguments), timeout_seconds, out.read_bytes())
        return subprocess.CompletedProcess(
            list(arguments), process.exitcode, out.read_text(), err.read_text()
        )


def _run(
    _sender: Connection,
    arguments: Sequence[str],
    cwd: Path,
    environment: dict[str, str],
    out: Path,
    err: Path,
) -> None:
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in ((1, out), (2, err)):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.argv = ["sluice", *arguments]
    runpy.run_module("cli", run_name="__main__", alter_sys=True)
