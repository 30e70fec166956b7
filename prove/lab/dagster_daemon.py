"""Dagster's daemon over a lab's configuration: real runs and their results."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dagster import DagsterEventType, DagsterInstance, DagsterRunStatus, RunsFilter
from dagster._core.scheduler.instigation import InstigatorType, TickStatus

from prove.lab.pipeline_lab import Lab
from servers.dagster import DagsterServers, DagsterSettings, prepare_dagster_home, start_dagster
from servers.process import free_ports

if TYPE_CHECKING:
    from dagster import DagsterRun, EventLogEntry

PATIENCE_SECONDS = 200.0
BACKLOG_SENSOR = "backlog_sensor"
_MOST_RUNS = "max_concurrent_runs: 10"


@dataclass(slots=True)
class DagsterDaemon:
    """Daemon and webserver with their state below ``home``; a restart keeps it.

    Each of the ``locations`` loads all definitions, and so has sensors of its own.
    """

    lab: Lab
    home: Path
    locations: tuple[str, ...] = ("sluice",)
    servers: DagsterServers | None = None

    def start(self) -> None:
        """Start both and wait until sensors are evaluated."""
        (port,) = free_ports(1)
        self.servers = start_dagster(
            DagsterSettings(self.home, self.lab.path, port, locations=self.locations)
        )

    def kill(self) -> None:
        """Kill all, with code servers and runs."""
        assert self.servers is not None
        self.servers.kill()

    @contextmanager
    def instance(self) -> Iterator[DagsterInstance]:
        """Return Dagster's instance."""
        with DagsterInstance.from_config(str(self.home / "dagster")) as instance:
            yield instance

    def drains(self, *statuses: DagsterRunStatus) -> list[DagsterRun]:
        """Return drain runs in these states (by default any), newest first."""
        with self.instance() as instance:
            return list(instance.get_runs(RunsFilter(job_name="drain", statuses=statuses or None)))

    def drain(self, run_id: str) -> DagsterRun:
        """Return a run with the tags that it has by now."""
        with self.instance() as instance:
            run = instance.get_run_by_id(run_id)
        assert run is not None
        return run

    def begun(self, run: DagsterRun) -> set[str]:
        """Return the steps of a run that have begun."""
        with self.instance() as instance:
            return {step.step_key for step in instance.get_run_step_stats(run.run_id) if step.start_time}

    def seconds_of_last_step(self, run: DagsterRun) -> float:
        """Return the time from the start of an ended run's last step to the run's end."""
        with self.instance() as instance:
            begun = max(step.start_time or 0.0 for step in instance.get_run_step_stats(run.run_id))
            record = instance.get_run_record_by_id(run.run_id)
        assert record is not None
        return (record.end_time or 0.0) - begun

    def pid(self, run: DagsterRun) -> int | None:
        """Return the process of a run, once it executes steps."""
        with self.instance() as instance:
            entries = instance.all_logs(run.run_id, of_type=DagsterEventType.ENGINE_EVENT)
        events = [entry.dagster_event for entry in entries if entry.dagster_event]
        pids = [event.engine_event_data.metadata.get("pid") for event in events]
        return next((int(str(pid.value)) for pid in reversed(pids) if pid is not None), None)

    def looks(self) -> Counter[str]:
        """Return the number of successful evaluations of each location's backlog sensor."""
        found: Counter[str] = Counter()
        with self.instance() as instance:
            for state in instance.all_instigator_state(instigator_type=InstigatorType.SENSOR):
                location = state.origin.repository_origin.code_location_origin.location_name
                if state.instigator_name == BACKLOG_SENSOR:
                    ticks = instance.get_ticks(state.instigator_origin_id, state.selector_id)
                    found[location] += sum(tick.status is not TickStatus.FAILURE for tick in ticks)
        return found

    def failures(self) -> list[str]:
        """Return the error codes of failed drains, or the text of an unknown error."""
        codes = []
        for run in self.drains(DagsterRunStatus.FAILURE):
            with self.instance() as instance:
                failed = instance.all_logs(run.run_id, of_type=DagsterEventType.STEP_FAILURE)
                ended = instance.all_logs(run.run_id, of_type=DagsterEventType.RUN_FAILURE)
            codes += [_code(entry) for entry in failed or ended] or [f"no error of ours: run {run.run_id}"]
        return codes

    def allow_runs(self, number: int) -> None:
        """Set the maximum of concurrent runs, before it is started."""
        prepare_dagster_home(self.home / "dagster")
        path = self.home / "dagster" / "dagster.yaml"
        text = path.read_text()
        assert _MOST_RUNS in text
        path.write_text(text.replace(_MOST_RUNS, f"max_concurrent_runs: {number}"))


def pipelines_of(run: DagsterRun) -> list[str]:
    """Return the pipelines that a run of the backlog sensor drains."""
    return run.tags["sluice/pipeline"].split(", ")


def _code(entry: EventLogEntry) -> str:
    event = entry.dagster_event
    failed = event.step_failure_data if event is not None and event.is_step_failure else None
    history = failed.user_failure_data if failed is not None else None
    code = history.metadata.get("code") if history is not None else None
    if code is not None:
        return str(code.value)
    return f"no error of ours: {failed.error if failed is not None else entry.message}"


@contextmanager
def running_dagster(
    lab: Lab, home: Path, *, most_runs: int | None = None, locations: tuple[str, ...] = ("sluice",)
) -> Iterator[DagsterDaemon]:
    """Yield a started daemon, and stop it at the end."""
    daemon = DagsterDaemon(lab, home, locations)
    if most_runs is not None:
        daemon.allow_runs(most_runs)
    daemon.start()
    try:
        yield daemon
    finally:
        assert daemon.servers is not None
        daemon.servers.stop()


def wait_beyond(lab: Lab, records: int, seconds: float = PATIENCE_SECONDS) -> int:
    """Wait until the table has more than this many offsets; return the number."""
    deadline = time.monotonic() + seconds
    while (reached := lab.drained()) <= records:
        assert time.monotonic() < deadline, f"no commit beyond {records} records within {seconds:.0f} s"
        time.sleep(0.1)
    return reached
