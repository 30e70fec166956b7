"""A fail point that signals its own process, to kill or stop a real run."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SignalAt:
    """Sends signal ``number`` to the process at ``name``: SIGKILL ends it, SIGSTOP stops it.

    With ``once``, a path that does not exist yet, only the first process to reach the place gets it: a
    task that Spark tries again is left alone the second time. The file then holds that process's id.
    """

    name: str
    number: int = signal.SIGKILL
    once: str = ""

    def reach(self, name: str) -> None:
        """Send the signal if this is the place."""
        if name == self.name and self._is_first():
            os.kill(os.getpid(), self.number)

    def _is_first(self) -> bool:
        if not self.once:
            return True
        try:
            with Path(self.once).open("x") as first:
                first.write(f"{os.getpid()}")
        except FileExistsError:
            return False
        return True
