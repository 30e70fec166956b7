"""How far a range has been read, when it is done, and with which error it ends when Kafka gives no more."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.offsets import OffsetRange

# After a leader moved, the new one may for a moment not show all that the old one did.
SHORT_LOG_GRACE_SECONDS = 5.0
QUIET_SECONDS = 3.0


class Cursor:
    """``position`` is the next offset; ``first`` the first record's offset, None before there is one.

    ``leader_epoch`` is the latest that a record below the range can have, None when nobody knows.
    ``log_end`` is where the log was last seen to end while the range goes on, else None; past ``deadline``
    nothing has arrived for so long that something is wrong.
    """

    def __init__(
        self,
        wanted: OffsetRange,
        timeout_seconds: float,
        clock: Callable[[], float],
        leader_epoch: int | None = None,
    ) -> None:
        self.wanted = wanted
        self.leader_epoch = leader_epoch
        self.position = wanted.start
        self.first: int | None = None
        self.log_end: int | None = None
        self.is_done = False
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self.deadline = clock() + timeout_seconds
        self._quiet_at = clock() + QUIET_SECONDS

    @property
    def is_overdue(self) -> bool:
        """Whether nothing has arrived for so long that something is wrong."""
        return self._clock() > self.deadline

    def is_newly_quiet(self) -> bool:
        """True if it is time to ask why nothing arrives; true once a silence."""
        is_quiet = self._clock() > self._quiet_at
        if is_quiet:
            self._quiet_at = math.inf
        return is_quiet

    def advance(self, offsets: list[int]) -> int:
        """Move past ascending offsets; return how many of them belong to the range.

        An offset at or past the end shows that everything below the end was delivered.
        """
        kept = len(offsets) if offsets[-1] < self.wanted.end else bisect_left(offsets, self.wanted.end)
        if kept and self.first is None:
            self.first = offsets[0]
        self.position = offsets[-1] + 1
        self.log_end = None
        self.is_done = self.is_done or self.position >= self.wanted.end
        self.deadline = self._clock() + self._timeout_seconds
        self._quiet_at = self._clock() + QUIET_SECONDS
        return kept

    def saw_log_end(self, offset: int) -> None:
        """The log ends here for now: at or past the range's end that is the end of the range too.

        Below it, more may come only if a leader is just catching up: wait a little, not the whole timeout.
        """
        if offset >= self.wanted.end:
            self.is_done = True
            return
        self.log_end = offset
        self.deadline = min(self.deadline, self._clock() + SHORT_LOG_GRACE_SECONDS)


# What the read of a range ends with when Kafka no longer has it, or does not give it.


def retention_passed(topic: str, cursor: Cursor, offset: int, low: int) -> SluiceError:
    """Kafka begins at ``low`` by now, past ``offset`` that was to be read."""
    return fault("retention-passed.during-read", start=offset, last=low - 1, topic=topic, range=cursor.wanted)


def log_truncated(topic: str, cursor: Cursor, log_end: int) -> SluiceError:
    """Return the error for a log that ends below the range."""
    return fault("log-truncated.during-read", log_end=log_end, topic=topic, range=cursor.wanted)


def lost_behind(topic: str, partition: int, position: int, low: int, high: int) -> SluiceError:
    """Return the error for a log that does not go on from where it was followed to."""
    if position < low:
        return fault(
            "retention-passed.followed", position=position, last=low - 1, topic=topic, partition=partition
        )
    return fault("log-truncated.followed", position=position, high=high, topic=topic, partition=partition)
