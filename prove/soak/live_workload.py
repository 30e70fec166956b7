"""State of a soak: a pipeline, a live producer, and sleeping runs."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from prove.lab.brokers import Brokers
from prove.lab.drain_process import DrainProcess
from prove.lab.fault_proxy import FaultProxy
from prove.lab.harm_proxy import HarmProxy
from prove.lab.pipeline_lab import orders, progress
from prove.lab.work_loop import looping
from prove.workload import Workload

PAUSE_SECONDS = 0.15
MOST_AT_ONCE = 30
BAD_SHARE = 0.03
TOMBSTONE_SHARE = 0.02
BROKEN = (b"not json", b"null", b"\xff\xfe", b'{"id": 1', b'{"id": "a word"}', b'{"id": 1}{"id": 2}')
# What work may end with when a fault meets it, or others work on the table at the same time. Not among them:
# whatever says that strangers changed the table, and an error without a name.
TOLERATED = frozenset(
    {
        "offsets-moved",
        "dead-letters-moved",
        "taken-over",
        "replay-overtaken",
        "replay-ahead",
        "replayed-since",
        "no-such-snapshot",
        "nothing-to-roll-back",
        "commit-state-unknown",
        "commit-crowded-out",
        "upkeep-crowded-out",
        "catalog-away",
        "catalog-refused",
        "broker-away",
        "no-leader",
        "storage-failed",
        "storage-refused",
        "credentials-expired",
        "log-store-away",
        "log-store-refused",
        "manifest-unreadable",
    }
)


@dataclass(slots=True)
class LiveWorkload:
    """``broker`` is the workload's own; ``store`` is a proxy for the object store.

    ``sleepers`` are runs that SIGSTOP holds, ``history`` the newest events in words.
    """

    workload: Workload
    broker: Brokers
    store: HarmProxy
    producer: LiveProducer
    sleepers: deque[DrainProcess] = field(default_factory=deque)
    history: deque[str] = field(default_factory=lambda: deque(maxlen=12))

    @property
    def proxy(self) -> FaultProxy:
        """Return the catalog's proxy."""
        assert self.workload.proxy is not None
        return self.workload.proxy

    def offsets(self, draw: random.Random, most: int = 300) -> str:
        """Return a range of the table, in a replay's notation."""
        partition, place, length = draw.randrange(2), draw.random(), draw.randrange(1, most)
        lab = self.workload.lab
        next_offset = progress(lab, lab.pipeline.table).next_offsets.get(partition, 0)
        start = int(place * max(0, next_offset - 1))
        return f"{partition}:{start}-{min(start + length, max(next_offset, start + 1))}"

    def end(self, process: DrainProcess) -> str:
        """Wait for a run's end and describe it."""
        answer = process.ending()
        if answer is None:
            return "died"
        if answer.error is None:
            return "ended well"
        assert answer.error in TOLERATED, answer.message
        return f"ended with {answer.error}"

    def wake(self) -> str:
        """Continue the run that has slept longest, until its end."""
        sleeper = self.sleepers.popleft()
        sleeper.go_on()
        return self.end(sleeper)

    def kill_sleepers(self) -> None:
        """Kill sleeping runs."""
        while self.sleepers:
            self.sleepers.popleft().kill()


class LiveProducer:
    """Produces records repeatedly; their contents depend on the seed."""

    def __init__(self, workload: Workload, seed: int) -> None:
        self._workload = workload
        self._draw = random.Random(f"{seed}/records")
        self._lock = threading.Lock()
        self._fields = 0
        self._next_id = 0

    def produce(self, count: int, *, bad_share: float = BAD_SHARE) -> None:
        """Produce this many records, with this many undecodable ones."""
        with self._lock:
            kinds = [self._draw.random() for _ in range(count)]
            bad: list[bytes | None] = [self._draw.choice(BROKEN) for kind in kinds if kind < bad_share]
            bad += [None for kind in kinds if kind > 1 - TOMBSTONE_SHARE]
            good = orders(self._next_id, count - len(bad))
            self._next_id += len(good)
            self._workload.produce([self._with_fields(value) for value in good], bad)

    def add_field(self) -> int:
        """Add a field to all further records; return the number of fields."""
        with self._lock:
            self._fields += 1
            return self._fields

    def go_on(self, _round: int) -> None:
        """Produce one burst, and pause."""
        self.produce(self._draw.randrange(1, MOST_AT_ONCE))
        time.sleep(PAUSE_SECONDS)

    def _with_fields(self, value: bytes) -> bytes:
        if not self._fields:
            return value
        record = json.loads(value)
        number = record["id"]
        shapes = (number, f"text {number}", {"a": number, "b": f"{number}"}, [number, number + 1])
        for n in range(self._fields):
            record[f"new_{n}"] = shapes[n % len(shapes)]
        return json.dumps(record).encode()


@contextmanager
def live_workload(workload: Workload, broker: Brokers, store: HarmProxy, seed: int) -> Iterator[LiveWorkload]:
    """Yield an existing table and a producer that runs while the block does.

    ``broker`` is the workload's, ``store`` what stands before the object store.
    """
    workload.drain_batches()
    producer = LiveProducer(workload, seed)
    live = LiveWorkload(workload, broker, store, producer)
    try:
        with looping(producer.go_on):
            yield live
    except BaseException:
        live.kill_sleepers()
        raise
