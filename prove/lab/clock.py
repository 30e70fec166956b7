"""A clock that is set forward or back, for one process: all that it asks for the time."""

from __future__ import annotations

import time
from dataclasses import dataclass

_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ClockJump:
    """``seconds`` ahead of the machine's clock, or behind it when negative."""

    seconds: int = 0

    def impose(self) -> None:
        """Change this process's clock for good; what measures durations goes on as it was."""
        if not self.seconds:
            return
        now, now_ns = time.time, time.time_ns
        time.time = lambda: now() + self.seconds
        time.time_ns = lambda: now_ns() + self.seconds * _NANOSECONDS


NO_JUMP = ClockJump()
