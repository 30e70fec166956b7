"""Dagster's run launcher in ``up``: a run is forked from ``sluice-runs``, which has loaded what it needs.

A run of another code location is spawned by Dagster's own launcher. So is one that could not be forked, and
an event of the run says why.
"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from dagster import DagsterRun, DagsterRunStatus, DefaultRunLauncher

from servers.code_server import MODULE
from servers.private_dagster import arguments_of, health, module_of
from servers.process import ProcessRecord, ServerFolder, is_alive, record_of
from servers.runs import NAME, SOCKET_VARIABLE, TAG_PROCESS, fork_run
from spark_jobs.config.file import ENVIRONMENT_HOME

if TYPE_CHECKING:
    from dagster._core.launcher.base import CheckRunHealthResult, LaunchRunContext


class ForkingRunLauncher(DefaultRunLauncher):
    """It finds the process of a forked run by a tag of the run."""

    def launch_run(self, context: LaunchRunContext) -> None:
        """Fork the run, or spawn it."""
        run, path = context.dagster_run, os.environ.get(SOCKET_VARIABLE)
        if path is None or module_of(run) != MODULE:
            super().launch_run(context)
            return
        started = fork_run(path, run.run_id, run.job_name, arguments_of(self._instance, run))
        if isinstance(started, str):
            self._instance.report_engine_event(f"Spawned, not forked: {started}", run, cls=type(self))
            super().launch_run(context)
            return
        if started.was_asleep:
            told = f"{NAME} was asleep and has been started for this run"
            self._instance.report_engine_event(told, run, cls=type(self))
        record = record_of(started.pid, ServerFolder(Path(os.environ[ENVIRONMENT_HOME]), NAME))
        self._instance.add_run_tags(run.run_id, {TAG_PROCESS: json.dumps(asdict(record))})
        now = self._instance.get_run_by_id(run.run_id)
        if now and now.status is DagsterRunStatus.CANCELING:  # since before the tag
            self.terminate(run.run_id)

    def terminate(self, run_id: str) -> bool:
        """Interrupt the run's process, as Dagster's own launcher does."""
        run = self._instance.get_run_by_id(run_id)
        record = _record(run)
        if run is None or record is None or run.is_finished:
            return bool(super().terminate(run_id))  # type: ignore[no-untyped-call]
        self._instance.report_run_canceling(run)
        if not is_alive(record):
            return False
        os.kill(record.pid, signal.SIGINT)
        return True

    @property
    def supports_check_run_worker_health(self) -> bool:
        """True: the code server looks after spawned runs only."""
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """Return whether a forked run's process lives."""
        record = _record(run)
        return health(
            is_alive=record is None or is_alive(record), why=self.get_run_worker_debug_info(run) or "spawned"
        )

    def get_run_worker_debug_info(
        self,
        run: DagsterRun,
        include_container_logs: bool | None = True,  # noqa: ARG002
    ) -> str | None:
        """Return the state of a forked run's process in one sentence."""
        record = _record(run)
        if record is None:
            return None
        if not is_alive(record):
            return f"Its process {record.pid} has ended."
        process = psutil.Process(record.pid)
        seconds = sum(process.cpu_times()[:2])
        return f"Its process {record.pid} is {process.status()} and has used {seconds:.1f} s of CPU."


def _record(run: DagsterRun | None) -> ProcessRecord | None:
    text = run.tags.get(TAG_PROCESS) if run else None
    return ProcessRecord(**json.loads(text)) if text else None
