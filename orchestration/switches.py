"""What sensors have in common, and whether they and schedules are loaded switched on.

In a Dagster that is shared one may not want them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from dagster import DefaultScheduleStatus, DefaultSensorStatus, SensorDefinition, sensor

from assets.pipeline_asset import named_failures
from spark_jobs.protocol.errors import fault

VARIABLE = "SLUICE_AUTOMATION"


def _begins_running(word: str) -> bool:
    if word not in {"running", "stopped"}:
        raise fault("automation-unknown", word=word)
    return word == "running"


IS_RUNNING = _begins_running(os.environ.get(VARIABLE) or "running")
_SENSOR = DefaultSensorStatus.RUNNING if IS_RUNNING else DefaultSensorStatus.STOPPED
SCHEDULE = DefaultScheduleStatus.RUNNING if IS_RUNNING else DefaultScheduleStatus.STOPPED


def watching(
    seconds: int, description: str, **of_sensor: Any
) -> Callable[[Callable[..., Any]], SensorDefinition]:
    """Return the decorator of a sensor that ticks every so many seconds; its errors have their names."""
    return lambda tick: sensor(
        name=tick.__name__,
        minimum_interval_seconds=seconds,
        default_status=_SENSOR,
        description=description,
        **of_sensor,
    )(named_failures()(tick))
