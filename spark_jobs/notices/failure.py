"""A failure of a pipeline's work, as people are told of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.notices.notice import iso

DRAIN, UPKEEP = "drain", "upkeep"
STANDS_AFTER = 3  # failures alike: an outage that is tried again is none of a person's by then


@dataclass(frozen=True, slots=True)
class Failure:
    """What work ended with, and when, in milliseconds since the epoch: the first of ``times`` in a row alike.

    ``attempt`` is the last one that it had begun by then, if any.
    """

    message: str
    code: str
    hint: str
    at_ms: int
    since_ms: int = 0
    times: int = 1
    attempt: str = ""
    is_retryable: bool = False

    @property
    def is_standing(self) -> bool:
        """True if no later run is likely to mend it by itself."""
        return not self.is_retryable or self.times >= STANDS_AFTER

    def sentence(self, work: str) -> str:
        """Return what failed, of what, since when and how often."""
        since = iso((self.since_ms or self.at_ms) // 1000 * 1_000_000)
        often = f"{self.times:,} times alike since" if self.times > 1 else "at"
        return f"the last {work} failed ({often} {since}): {self.message.rstrip('.')}"
