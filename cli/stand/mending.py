"""When a server of `up` that ended by itself is started again: soon, and rarely once that does not help."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

SOON_SECONDS = 30.0  # from one start to the next, at least; the first is at once
FAILURES, WITHIN_SECONDS, RARELY_SECONDS = 3, 600.0, 300.0


@dataclass(slots=True)
class Mending:
    """``failing`` ended three times in ten minutes, and has not run for five since."""

    now: Callable[[], float] = time.monotonic
    failing: set[str] = field(default_factory=set)
    _starts: dict[str, list[float]] = field(default_factory=dict)

    def may_start(self, name: str) -> bool:
        """True if one that has ended is to be started now, which is counted."""
        now, starts = self.now(), self._starts.get(name, [])
        if starts and now - starts[-1] < (RARELY_SECONDS if name in self.failing else SOON_SECONDS):
            return False
        self._starts[name] = [*(at for at in starts if now - at < WITHIN_SECONDS), now]
        if len(self._starts[name]) >= FAILURES:
            self.failing.add(name)
        return True

    def run(self, names: Collection[str]) -> None:
        """Take note of what runs: a server that has done so for five minutes is well again."""
        well = {each for each in names if self.now() - self._starts.get(each, [0])[-1] >= RARELY_SECONDS}
        self.failing -= well
