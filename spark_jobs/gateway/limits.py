"""How much a client may send: buckets that fill by the second."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from spark_jobs.protocol.errors import RetryableError

WINDOW_BYTES = 16 << 20  # of batches in one transaction
_LEAST_BYTES = 64 << 10
_SOON_SECONDS = 1.0


class Bucket:
    """Takes what comes while there is anything in it, and owes the rest: a large batch waits once.

    ``rate`` is what flows in a second, and the most that is in it; None is no limit.
    """

    __slots__ = ("_at", "_clock", "_level", "rate")

    def __init__(self, rate: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self._clock = clock
        self._level = rate or 0.0
        self._at = clock()

    def wait_ms(self) -> int:
        """Return in how many milliseconds something is in it, 0 for now."""
        if self.rate is None:
            return 0
        now = self._clock()
        self._level = min(self.rate, self._level + (now - self._at) * self.rate)
        self._at = now
        return 0 if self._level > 0 else round(-self._level / self.rate * 1000) + 1

    def take(self, amount: float) -> None:
        """Take it out."""
        self._level -= amount

    @property
    def is_full(self) -> bool:
        """True if nothing is owed: forgetting the bucket changes nothing."""
        return self.rate is None or (self.wait_ms() == 0 and self._level == self.rate)


class Buckets:
    """A bucket for each of what is counted apart, such as addresses; those that are full are forgotten."""

    _KEPT = 10_000

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._buckets: dict[Hashable, Bucket] = {}

    def of(self, name: Hashable) -> Bucket:
        """Return the bucket of that name."""
        if name not in self._buckets:
            if len(self._buckets) >= self._KEPT:
                self._buckets = {key: each for key, each in self._buckets.items() if not each.is_full}
            self._buckets[name] = Bucket(self._rate)
        return self._buckets[name]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a connection, or a request, is held to: by its token, by itself, and by its address."""

    events: tuple[Bucket, ...]
    bytes: Bucket

    def wait_ms(self, events: int, size_bytes: int) -> int:
        """Take what a batch costs from all, or from none; return when to try again, 0 if it was taken."""
        costs = [*((bucket, events) for bucket in self.events), (self.bytes, size_bytes)]
        if wait_ms := max(bucket.wait_ms() for bucket, _ in costs):
            return wait_ms
        for bucket, amount in costs:
            bucket.take(amount)
        return 0


@dataclass(slots=True)
class Pace:
    """How many bytes of batches go into one transaction: half of what did not arrive, twice what did soon."""

    most_bytes: int = WINDOW_BYTES
    clock: Callable[[], float] = time.monotonic

    @contextmanager
    def kept(self, size_bytes: int) -> Iterator[None]:
        """Learn from a transaction of that size."""
        began = self.clock()
        try:
            yield
        except RetryableError:
            self.most_bytes = max(_LEAST_BYTES, min(size_bytes, self.most_bytes) // 2)
            raise
        if self.clock() - began < _SOON_SECONDS:
            self.most_bytes = min(WINDOW_BYTES, 2 * self.most_bytes)
