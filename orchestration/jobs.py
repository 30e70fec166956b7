"""The jobs that sensors and schedules start, and the initial state of these.

Jobs have a maximum runtime and are never retried by Dagster. Their steps run in the run's own process
(`Definitions(executor=...)`), since a second process costs seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from dagster import (
    AssetChecksDefinition,
    AssetSelection,
    DefaultScheduleStatus,
    DefaultSensorStatus,
    SensorDefinition,
    define_asset_job,
    sensor,
)

from assets.pipeline_asset import (
    CHECKS,
    DRAIN_MAX_RUNTIME_SECONDS,
    GROUP_TABLES,
    GROUP_UPKEEP,
    NO_RETRY_TAGS,
    OTHER_MAX_RUNTIME_SECONDS,
    QUALITY,
    TAG_MAX_RUNTIME,
    named_failures,
)
from spark_jobs.protocol.errors import fault

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition


_JUDGED = {
    CHECKS: "Runs the built-in checks of every pipeline, and an audit of the newest records every hour.",
    QUALITY: "Runs the quality suites of the selected pipelines on committed rows.",
}


def run_tags(max_runtime_seconds: int) -> dict[str, str]:
    """Return the tags of a run with a maximum runtime and without any retry by Dagster."""
    return {TAG_MAX_RUNTIME: str(max_runtime_seconds), **NO_RETRY_TAGS}


drain_job = define_asset_job(
    "drain",
    AssetSelection.groups(GROUP_TABLES).without_checks(),
    description="Drains the selected pipelines until they have caught up or their time budget is used up.",
    tags=run_tags(DRAIN_MAX_RUNTIME_SECONDS),
)

upkeep_job = define_asset_job(
    "upkeep",
    AssetSelection.groups(GROUP_UPKEEP),
    description="Runs the selected upkeep: compaction, snapshots, manifests, orphans, transaction logs.",
    tags=run_tags(OTHER_MAX_RUNTIME_SECONDS),
)


def judging_job(name: str, checks: Sequence[AssetChecksDefinition]) -> UnresolvedAssetJobDefinition:
    """Return the job ``checks`` or ``quality``, which can also be launched by hand; neither writes rows."""
    return define_asset_job(
        name,
        AssetSelection.checks(*checks),
        description=_JUDGED[name],
        tags=run_tags(OTHER_MAX_RUNTIME_SECONDS),
    )


# The common parts of sensors, and the initial state of sensors and schedules: a shared Dagster may need them
# switched off.


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
    """Return the decorator of a sensor that ticks every ``seconds``; its errors become named failures."""
    return lambda tick: sensor(
        name=tick.__name__,
        minimum_interval_seconds=seconds,
        default_status=_SENSOR,
        description=description,
        **of_sensor,
    )(named_failures()(tick))


# With twice as many, sensors tick half as often: a look takes longer, and so do the runs it asks for.
# The daemon looks every 5 s: 6 s between ticks would be 10.
PIPELINES_AT_FULL_PACE = 500


def paced(watch: SensorDefinition, pipelines: int) -> SensorDefinition:
    """Return the sensor for this number of pipelines: with 1,000 it ticks half as often."""
    slower = copy(watch)
    factor = max(1, pipelines // PIPELINES_AT_FULL_PACE)
    slower._min_interval = (watch.minimum_interval_seconds or 0) * factor  # noqa: SLF001  (no setter)
    return slower
