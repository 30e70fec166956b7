"""A fail point that signals its own process: what the tests inject to kill or stop a real run."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SignalAt:
    """Send signal ``number`` to the process that reaches ``name``: SIGKILL ends it, SIGSTOP holds it."""

    name: str
    number: int = signal.SIGKILL

    def reach(self, name: str) -> None:
        """Signal here if this is the place."""
        if name == self.name:
            os.kill(os.getpid(), self.number)
