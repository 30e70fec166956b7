"""Builds Dagster's definitions from a configuration, without a request to any server."""

from __future__ import annotations

from dagster import Definitions, in_process_executor

from assets.checks import hot_check, quality_checks, table_checks
from assets.pipeline_asset import CHECKS, QUALITY
from assets.replays import rebuild_asset, redrive_asset, replay_asset
from assets.tables import table_asset, topic_assets
from assets.upkeep import upkeep_assets
from orchestration.backlog_sensor import backlog_sensor
from orchestration.clock_schedules import checks_schedule, clock_schedules
from orchestration.event_log_upkeep import event_log_upkeep_job, event_log_upkeep_schedule
from orchestration.jobs import drain_job, judging_job, paced, upkeep_job
from orchestration.quality_sensor import quality_sensor
from orchestration.topics_sensor import topics_sensor
from orchestration.upkeep_sensor import upkeep_sensor
from orchestration.windows_sensor import windows_sensor
from resources.sluice import Sluice
from resources.spark import SparkSessions, is_spark_local
from spark_jobs.config.settings import SluiceConfig

# The assets that rewrite rows, by their names in the layouts.
_AGAIN = {"replay": replay_asset, "redrive": redrive_asset, "rebuild": rebuild_asset}


def build_definitions(config: SluiceConfig) -> Definitions:
    """Return the assets, checks, jobs, sensors, schedules and resources of all pipelines."""
    pipelines, is_local = config.pipelines, is_spark_local(config)
    hot = [check for pipeline in pipelines if (check := hot_check(pipeline)) is not None]
    checks = [*table_checks(pipelines), *hot]
    suites = [suites for pipeline in pipelines if (suites := quality_checks(pipeline)) is not None]
    watches = [backlog_sensor, upkeep_sensor, windows_sensor, *([quality_sensor] if suites else [])]
    return Definitions(
        assets=[
            *topic_assets(pipelines),
            *(table_asset(pipeline, is_local=is_local) for pipeline in pipelines),
            *(
                again(pipeline, is_local=is_local)
                for pipeline in pipelines
                for again in map(_AGAIN.__getitem__, pipeline.layout.rewrite_commands)
            ),
            *(asset for pipeline in pipelines for asset in upkeep_assets(pipeline, is_local=is_local)),
        ],
        asset_checks=[*checks, *suites],
        jobs=[
            *([drain_job, upkeep_job] if pipelines else []),
            *([judging_job(CHECKS, checks)] if checks else []),
            *([judging_job(QUALITY, suites)] if suites else []),
            event_log_upkeep_job,
        ],
        sensors=[
            *([paced(watch, len(pipelines)) for watch in watches] if pipelines else []),
            *([topics_sensor] if config.templates else []),
        ],
        schedules=[
            event_log_upkeep_schedule,
            *([checks_schedule] if checks else []),
            *clock_schedules(pipelines),
        ],
        resources={"sluice": Sluice(config), "spark": SparkSessions(config, is_logged_apart=False)},
        executor=in_process_executor,
    )
