"""A rebuild: all changes of a mirror's topic folded anew, in the place of everything that is there. Pure.

The replay epoch fences it, and its commit fences all that was planned before. Recovered as a replay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from spark_jobs.protocol.work import Behind, Told, Touched

_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Rebuild(Behind):
    """The one work that keeps nothing: neither rows nor the types of their columns."""

    def kept(self, table: _T) -> _T | None:  # noqa: ARG002  (of Work)
        """See ``Work``."""
        return None


REBUILD = Rebuild("rebuild", touches=Touched.ANY, told=Told.EACH)
