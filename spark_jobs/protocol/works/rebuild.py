"""The rebuild: all changes of a mirror's topic, folded again, replace the whole table. Pure.

The replay epoch fences it, and its commit fences all that was planned before. Recovered as a replay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from spark_jobs.protocol.work import Behind, Effect, Touched

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Rebuild(Behind):
    """The only work that keeps neither rows nor column types."""

    def kept(self, table: _T) -> _T | None:  # noqa: ARG002  (of Work)
        """See ``Work``."""
        return None


REBUILD = Rebuild("rebuild", touches=Touched.ANY, effect=Effect.EACH)
