"""Sums over finished attempts: what counters are made of. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from spark_jobs.books.entries import BookEntry
from spark_jobs.protocol.batch import Balance, BatchKind

# Seconds. A batch is anything from an empty one to the longest a run may last.
BATCH_BOUNDS = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
COMMIT_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
COMMIT_STEP = "commit"
COUNTED = ("bytes_read", "file_bytes", "data_files")


@dataclass(slots=True)
class Distribution:
    """How many durations were at most as long as each bound, how many there were, and their sum."""

    bounds: tuple[float, ...]
    within: Counter[float] = field(default_factory=Counter)
    count: int = 0
    seconds: float = 0.0

    def add(self, durations: Iterable[float]) -> None:
        """Count durations in seconds."""
        for seconds in durations:
            self.within.update(bound for bound in self.bounds if seconds <= bound)
            self.count += 1
            self.seconds += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """As Prometheus wants them: cumulative, the last without bound."""
        return [*((str(bound), float(self.within[bound])) for bound in self.bounds), ("+Inf", self.count)]

    def copy(self) -> Distribution:
        """One that can be added to alone."""
        return Distribution(self.bounds, Counter(self.within), self.count, self.seconds)


@dataclass(slots=True)
class Totals:
    """Landed commits by kind, attempts given up, and sums of ``balance`` and ``COUNTED`` over the landed."""

    landed: Counter[str] = field(default_factory=Counter)
    given_up: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    balance: Balance = field(default_factory=Balance)
    batches: Distribution = field(default_factory=lambda: Distribution(BATCH_BOUNDS))
    commits: Distribution = field(default_factory=lambda: Distribution(COMMIT_BOUNDS))

    def add(self, entry: BookEntry) -> None:
        """Count one finished attempt; one that never landed adds nothing but itself."""
        if not entry.is_landed:
            self.given_up += 1
            return
        self.landed[entry.kind] += 1
        self.balance += entry.balance
        self.counts.update({name: getattr(entry, name) for name in COUNTED})
        # An adopted batch was timed by nobody; an act writes nothing that would take time.
        if entry.durations_ms and BatchKind(entry.kind).writes_files:
            self.batches.add([sum(entry.durations_ms.values()) / 1000])
            self.commits.add([entry.durations_ms.get(COMMIT_STEP, 0) / 1000])

    def copy(self) -> Totals:
        """One that can be added to alone."""
        return Totals(
            Counter(self.landed),
            self.given_up,
            Counter(self.counts),
            self.balance,
            self.batches.copy(),
            self.commits.copy(),
        )
