"""From a configuration to Dagster's definitions; pure: nothing is read, asked or opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster import Definitions, in_process_executor

from assets.tables import table_asset
from assets.topics import topic_assets
from assets.txlog_checkpoints import txlog_asset
from orchestration.backlog_sensor import backlog_sensor
from orchestration.event_log_upkeep import event_log_upkeep_job, event_log_upkeep_schedule
from orchestration.jobs import checkpoint_job, drain_job
from orchestration.txlog_sensor import txlog_sensor
from resources.sluice import Sluice

if TYPE_CHECKING:
    from spark_jobs.core.config import SluiceConfig


def build_definitions(config: SluiceConfig) -> Definitions:
    """Topics, tables and logs of every pipeline, what starts their runs, and the one resource they share."""
    pipelines = config.pipelines
    jobs = [drain_job, checkpoint_job] if pipelines else []
    return Definitions(
        assets=[
            *topic_assets(pipelines),
            *(table_asset(pipeline) for pipeline in pipelines),
            *(txlog_asset(pipeline) for pipeline in pipelines),
        ],
        jobs=[*jobs, event_log_upkeep_job],
        sensors=[backlog_sensor, txlog_sensor] if pipelines else [],
        schedules=[event_log_upkeep_schedule],
        resources={"sluice": Sluice(config)},
        executor=in_process_executor,
    )
