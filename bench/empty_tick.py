"""A sensor tick without work: duration, its parts, and the cost of being idle."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from dagster._core.scheduler.instigation import TickStatus

from bench.processor_time import TreeClock
from spark_jobs.config.file import load_config
from spark_jobs.monitoring.survey import Surveyor, state_of

if TYPE_CHECKING:
    from dagster import DagsterInstance

LOOKS = 10
_TIMEOUT_SECONDS = 300.0


def p95(figures: Sequence[float]) -> float:
    """Return the smallest measured figure that 95 % do not exceed; of fewer than 20, the largest."""
    return sorted(figures)[math.ceil(0.95 * len(figures)) - 1]


@dataclass(frozen=True, slots=True)
class EmptyTicks:
    """``seconds`` of each tick from begin to end, as the daemon recorded them.

    ``tables_ms`` and ``topics_ms`` are medians of the sensor's two looks, made in this process.
    ``idle_cores`` is what daemon and code server take of a core, all sensors included, nan off Linux.
    """

    seconds: tuple[float, ...]
    tables_ms: float
    topics_ms: float
    idle_cores: float

    @property
    def p50_seconds(self) -> float:
        """The median tick."""
        return median(self.seconds)

    @property
    def p95_seconds(self) -> float:
        """The slowest of fewer than 20 ticks, else the 95th percentile."""
        return p95(self.seconds)


def measure_empty_ticks(
    instance: DagsterInstance, sensor: str, pids: Sequence[int], config: Path, ticks: int
) -> EmptyTicks:
    """Wait for this many ticks without work, then look as the sensor does."""
    since, clock = time.time(), TreeClock(*pids)
    seconds = _skipped(instance, sensor, since, ticks)
    idle_cores = clock.seconds() / (time.time() - since)
    surveyor = Surveyor(load_config(config))
    return EmptyTicks(
        seconds=seconds,
        tables_ms=_median_ms(lambda: surveyor.for_each_table(state_of)),
        topics_ms=_median_ms(surveyor.sources),
        idle_cores=idle_cores,
    )


def _skipped(instance: DagsterInstance, sensor: str, since: float, ticks: int) -> tuple[float, ...]:
    """Return the seconds of the first ticks after ``since`` without work."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        found = [
            tick.end_timestamp - tick.timestamp
            for state in instance.all_instigator_state()
            if state.instigator_name == sensor
            for tick in instance.get_ticks(
                state.instigator_origin_id, state.selector_id, after=since, statuses=[TickStatus.SKIPPED]
            )
            if tick.end_timestamp is not None
        ]
        if len(found) >= ticks:
            return tuple(found)
        time.sleep(1)
    raise RuntimeError(f"{sensor} did not tick {ticks} times in {_TIMEOUT_SECONDS:.0f} s")


def _median_ms(look: Callable[[], object]) -> float:
    """Return the median milliseconds of all but the first look, which connects."""
    look()
    taken = []
    for _ in range(LOOKS):
        began = time.monotonic()
        look()
        taken.append((time.monotonic() - began) * 1000)
    return median(taken)
