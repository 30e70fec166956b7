"""Work in a process of its own is signalled only while it is that process."""

from __future__ import annotations

import multiprocessing
import subprocess
from pathlib import Path
from typing import Any, cast

from prove.lab.drain_process import DrainProcess


class Ended:
    """A process that has ended and whose id the kernel gave to another one."""

    exitcode = 0

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def is_alive(self) -> bool:
        """It is not."""
        return False

    def join(self, _seconds: float) -> None:
        """Nothing to wait for."""


def test_who_got_the_id_of_ended_work_lives_on() -> None:
    """Threads take ids too, so that a busy machine gives them all out within minutes."""
    receiver, _ = multiprocessing.Pipe(duplex=False)
    with subprocess.Popen(["sleep", "60"]) as other:
        DrainProcess(cast("Any", Ended(other.pid)), receiver, Path()).kill()
        try:
            other.wait(0.3)
        except subprocess.TimeoutExpired:
            is_alive = True
        else:
            is_alive = False
        other.kill()
    assert is_alive, f"signal {-other.returncode} ended it"
