"""From a configuration to Dagster's definitions: nothing is read, asked or opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster import Definitions, in_process_executor

from assets.checks import table_checks
from assets.quality_checks import quality_checks
from assets.replays import replay_asset
from assets.tables import table_asset
from assets.topics import topic_assets
from assets.txlog_checkpoints import txlog_asset
from assets.upkeep import upkeep_assets
from orchestration.backlog_sensor import backlog_sensor
from orchestration.checks_schedule import checks_job, checks_schedule
from orchestration.event_log_upkeep import event_log_upkeep_job, event_log_upkeep_schedule
from orchestration.jobs import drain_job, upkeep_job
from orchestration.quality_sensor import quality_job, quality_sensor
from orchestration.upkeep_sensor import upkeep_sensor
from orchestration.windows_sensor import windows_sensor
from resources.sluice import Sluice

if TYPE_CHECKING:
    from spark_jobs.config.settings import SluiceConfig


def build_definitions(config: SluiceConfig) -> Definitions:
    """Topics, tables and logs of every pipeline, what starts their runs, and the one resource they share."""
    pipelines = config.pipelines
    jobs = [drain_job, upkeep_job] if pipelines else []
    schedules = [event_log_upkeep_schedule]
    checks = [checks for pipeline in pipelines if (checks := table_checks(pipeline)) is not None]
    if checks:
        jobs.append(checks_job(checks))
        schedules.append(checks_schedule(jobs[-1]))
    sensors = [backlog_sensor, upkeep_sensor, windows_sensor] if pipelines else []
    suites = [found for pipeline in pipelines if (found := quality_checks(pipeline)) is not None]
    if suites:
        jobs.append(quality_job(suites))
        sensors.append(quality_sensor(jobs[-1]))
    return Definitions(
        assets=[
            *topic_assets(pipelines),
            *(table_asset(pipeline) for pipeline in pipelines),
            *(txlog_asset(pipeline) for pipeline in pipelines),
            *(replay_asset(pipeline) for pipeline in pipelines),
            *(asset for pipeline in pipelines for asset in upkeep_assets(pipeline)),
        ],
        asset_checks=[*checks, *suites],
        jobs=[*jobs, event_log_upkeep_job],
        sensors=sensors,
        schedules=schedules,
        resources={"sluice": Sluice(config)},
        executor=in_process_executor,
    )
