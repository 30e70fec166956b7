"""Shorter timeouts of a process: hours of waiting prove nothing."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.commit import swap
from spark_jobs.lake import rest_catalog, sql_catalog


@dataclass(frozen=True, slots=True)
class Patience:
    """Timeouts in seconds; None keeps the product's own.

    ``read_back`` are the pauses between looks for a commit whose outcome is unknown, ``answer`` is for a
    catalog server's answer, ``lock`` for SQLite's.
    """

    read_back: tuple[float, ...] | None = None
    answer: float | None = None
    lock: int | None = None

    def impose(self) -> None:
        """Set this process's timeouts."""
        if self.read_back is not None:
            swap.READ_BACK_PAUSES_SECONDS = self.read_back
        if self.answer is not None:
            rest_catalog.TIMEOUTS_SECONDS = (rest_catalog.TIMEOUTS_SECONDS[0], self.answer)
        if self.lock is not None:
            sql_catalog.SQLITE_BUSY_TIMEOUT_SECONDS = self.lock
