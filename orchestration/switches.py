"""Whether sensors and schedules are loaded switched on: in a Dagster that is shared one may not want them."""

from __future__ import annotations

import os

from dagster import DefaultScheduleStatus, DefaultSensorStatus

from spark_jobs.protocol.errors import fault

VARIABLE = "SLUICE_AUTOMATION"


def _begins_running(word: str) -> bool:
    if word not in {"running", "stopped"}:
        raise fault("automation-unknown", word=word)
    return word == "running"


IS_RUNNING = _begins_running(os.environ.get(VARIABLE) or "running")
SENSOR = DefaultSensorStatus.RUNNING if IS_RUNNING else DefaultSensorStatus.STOPPED
SCHEDULE = DefaultScheduleStatus.RUNNING if IS_RUNNING else DefaultScheduleStatus.STOPPED
