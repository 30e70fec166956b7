"""The drain: new rows from the records after the table's next offsets. Pure.

Its commit moves the offsets, which fence it; recovery adopts what is whole, and sweeps what can never land.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from spark_jobs.protocol.work import Effect, Work

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Drain(Work):
    """The only work with offsets that are new to the table."""

    effect: Effect = Effect.EACH

    def new(self, value: _T) -> _T | None:
        """See ``Work``."""
        return value


DRAIN = Drain("drain")
