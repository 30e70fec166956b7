"""Named places between the phases where a test may kill, stop or delay a run. Pure.

The registry is injected: no global, no environment variable, and production code passes ``NoFailPoints``.
"""

from __future__ import annotations

from typing import Protocol


class FailPoints(Protocol):
    """What a run asks at every named point; a name is ``<job>.<place>``: ``drain.after-parquet-written``."""

    def reach(self, name: str) -> None:
        """Return to go on, raise or never return to fail here."""
        ...


class NoFailPoints:
    """Production: every point is passed."""

    def reach(self, name: str) -> None:
        """Go on."""
