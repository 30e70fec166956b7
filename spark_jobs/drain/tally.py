"""What a split's task counts while it works."""

from __future__ import annotations

import resource
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spark_jobs.protocol.batch import Balance, WrittenFile
from spark_jobs.spark.outcomes import Written

if TYPE_CHECKING:
    from spark_jobs.kafka.chunks import Chunk


class Tally:
    """What a split's task counts while it works."""

    def __init__(self) -> None:
        self._balances: dict[int, Balance] = defaultdict(Balance)
        self._cpu_us: Counter[str] = Counter()
        self._threads_began_ns = _threads_ns()
        self._max_timestamp_ms: dict[int, int] = {}
        self._bytes_read = 0
        self.kafka: dict[str, int] = {}
        self.ignored: dict[str, int] = {}
        self.dead_letter_phases: Counter[str] = Counter()
        self.filtered_reasons: Counter[str] = Counter()
        self.unlisted: dict[str, int] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Charge this thread's CPU time to a step; librdkafka's beside it is charged to ``threads``."""
        started = time.thread_time_ns()
        try:
            yield
        finally:
            self._cpu_us[name] += (time.thread_time_ns() - started) // 1000

    def follow(self, chunk: Chunk, position: int) -> int:
        """Count the gaps before and inside a partition's chunk; return the position after it."""
        last = chunk.offsets[-1]
        self.skip(chunk.partition, last + 1 - position - len(chunk.offsets))
        self.note(chunk)
        return last + 1

    def note(self, chunk: Chunk) -> None:
        """Count the bytes and the times of a partition's chunk."""
        self._bytes_read += chunk.record_bytes
        newest = max(chunk.timestamps_ms)
        if newest >= 0:
            known = self._max_timestamp_ms.get(chunk.partition, newest)
            self._max_timestamp_ms[chunk.partition] = max(known, newest)

    def skip(self, partition: int, offsets: int) -> None:
        """Count offsets that hold no readable record."""
        self.count(partition, Balance(gaps=offsets))

    def count(self, partition: int, balance: Balance) -> None:
        """Add to a partition's balance."""
        self._balances[partition] += balance

    def written(
        self,
        data_files: list[WrittenFile],
        dead_letter_files: list[WrittenFile],
        routed_files: dict[str, tuple[WrittenFile, ...]] | None = None,
    ) -> Written:
        """Return the finished split's files with what was counted."""
        return Written(
            data_files=tuple(data_files),
            dead_letter_files=tuple(dead_letter_files),
            balances=dict(self._balances),
            bytes_read=self._bytes_read,
            max_timestamp_ms=self._max_timestamp_ms,
            cpu_us={**self._cpu_us, "threads": (_threads_ns() - self._threads_began_ns) // 1000},
            kafka=self.kafka,
            ignored=self.ignored,
            dead_letter_phases=dict(self.dead_letter_phases),
            filtered_reasons=dict(self.filtered_reasons),
            routed_files=routed_files or {},
            unlisted=self.unlisted,
            peak_task_rss_bytes=_peak_rss_bytes(),
        )


def _threads_ns() -> int:
    """Return the CPU time of the process's other threads: they read ahead for whichever step is at work."""
    return time.process_time_ns() - time.thread_time_ns()


def _peak_rss_bytes() -> int:
    # Linux counts in KiB, macOS in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
