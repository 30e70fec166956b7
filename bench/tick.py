"""From a sensor's tick to its commit through a real Dagster daemon, and its parts.

In the end nothing is produced any more, and ticks that ask for nothing are measured.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from dagster import DagsterEventType, DagsterInstance, RunsFilter

from bench.empty_tick import EmptyTicks, measure_empty_ticks, p95
from bench.lab import Lab
from bench.records import fill, generate
from servers.dagster import DagsterSettings, start_dagster
from servers.process import free_ports

if TYPE_CHECKING:
    from dagster import EventLogEntry

TOPIC = "tick"
RECORDS = 1_000
EMPTY_TICKS = 12
GOAL_P50_SECONDS = 8.0
GOAL_P95_SECONDS = 12.0
_SENSOR = "backlog_sensor"
_TIMEOUT_SECONDS = 120.0
# What ends each stretch of the way, in order; the commit itself is the run's own line about its batch.
_MILESTONES = {
    "tick: look and ask": DagsterEventType.RUN_ENQUEUED,
    "queue": DagsterEventType.RUN_STARTING,
    "run process starts, imports": DagsterEventType.RUN_START,
    "step begins": DagsterEventType.STEP_START,
}
_LAST_STRETCH = "connect, drain, commit"


@dataclass(frozen=True, slots=True)
class TickRound:
    """One backlog: seconds until a tick saw it, and from that tick to its commit, by stretch."""

    waited_seconds: float
    stretches: dict[str, float]

    @property
    def seconds(self) -> float:
        """From the tick to the commit."""
        return sum(self.stretches.values())


@dataclass(frozen=True, slots=True)
class TickResult:
    """All rounds except the daemon's first, whose run creates the table; ``empty`` are later ticks."""

    records: int
    runs_succeeded: int
    rounds: tuple[TickRound, ...]
    empty: EmptyTicks

    @property
    def p50_seconds(self) -> float:
        """Median from tick to commit."""
        return median(r.seconds for r in self.rounds)

    @property
    def p95_seconds(self) -> float:
        """The slowest of fewer than 20 rounds, else the 95th percentile."""
        return p95([r.seconds for r in self.rounds])

    @property
    def p50_stretches(self) -> dict[str, float]:
        """Median of every stretch."""
        return {name: median(r.stretches[name] for r in self.rounds) for name in self.rounds[0].stretches}

    @property
    def p50_waited_seconds(self) -> float:
        """Median wait for the tick."""
        return median(r.waited_seconds for r in self.rounds)


def measure_tick(lab: Lab, rounds: int, empty_ticks: int = EMPTY_TICKS) -> TickResult:
    """Start a daemon over the lab's servers, drain backlogs repeatedly; then none."""
    generate(lab.bootstrap_servers, TOPIC, RECORDS)
    with lab.spark("spark-tick") as spark:
        path = lab.configure("tick", TOPIC, spark, max_batch_records=RECORDS)
        settings = DagsterSettings(path.parent / ".sluice", path, free_ports(1)[0])
        servers = start_dagster(settings)
        try:
            with DagsterInstance.from_config(str(settings.dagster_home)) as instance:
                measured = _rounds(lab, instance, rounds)
                pids = [servers.daemon.pid, *(one.process.pid for one in servers.code_servers)]
                empty = measure_empty_ticks(instance, _SENSOR, pids, path, empty_ticks)
        finally:
            servers.stop()
    return TickResult(RECORDS, len(measured), measured[1:], empty)


def _rounds(lab: Lab, instance: DagsterInstance, rounds: int) -> tuple[TickRound, ...]:
    measured: list[TickRound] = []
    for number in range(rounds + 1):
        if number:  # the first backlog was there before the daemon
            fill(lab.bootstrap_servers, TOPIC, number * RECORDS, RECORDS)
        produced_at = time.time()
        run_id = _finished_run(instance, number)
        measured.append(_timeline(instance, run_id, produced_at))
    return tuple(measured)


def _finished_run(instance: DagsterInstance, number: int) -> str:
    """Wait until the sensor's run with this number, counted from 0, has succeeded; upkeep has others."""
    deadline = time.monotonic() + _TIMEOUT_SECONDS
    drains = RunsFilter(tags={"dagster/sensor_name": _SENSOR})
    while time.monotonic() < deadline:
        runs = instance.get_runs(drains)
        if len(runs) > number and runs[0].is_finished:
            if not runs[0].is_success:
                raise RuntimeError(f"run {runs[0].run_id} ended as {runs[0].status.value}")
            return runs[0].run_id
        time.sleep(0.2)
    raise RuntimeError(f"the sensor's run number {number} did not end in {_TIMEOUT_SECONDS:.0f} s")


def _timeline(instance: DagsterInstance, run_id: str, produced_at: float) -> TickRound:
    events = list(instance.all_logs(run_id))
    stretches = {}
    ticked_at = since = _ticked_at(instance, run_id)
    for name, kind in _MILESTONES.items():
        at = next(event.timestamp for event in events if event.dagster_event_type is kind)
        stretches[name], since = at - since, at
    stretches[_LAST_STRETCH] = _committed_at(events) - since
    return TickRound(max(0.0, ticked_at - produced_at), stretches)


def _ticked_at(instance: DagsterInstance, run_id: str) -> float:
    for state in instance.all_instigator_state():
        if state.instigator_name != _SENSOR:
            continue
        for tick in instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=50):
            if run_id in tick.run_ids:
                return float(tick.timestamp)
    raise RuntimeError(f"no tick of {_SENSOR} asked for run {run_id}")


def _committed_at(events: list[EventLogEntry]) -> float:
    """Return when the run reported its first batch, right after the commit."""
    return next(event.timestamp for event in events if not event.is_dagster_event and event.step_key)
