"""Runs every pipeline's checks every five minutes: what nobody looks at is judged all the same."""

from collections.abc import Sequence
from typing import Any

from dagster import (
    AssetChecksDefinition,
    AssetSelection,
    DefaultScheduleStatus,
    RunRequest,
    RunsFilter,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    SkipReason,
    define_asset_job,
    in_process_executor,
    schedule,
)

from assets.failures import NO_RETRY_TAGS
from assets.limits import CHECKS_MAX_RUNTIME_SECONDS
from orchestration.jobs import TAG_MAX_RUNTIME
from orchestration.run_requests import UNDER_WAY

EVERY_FIVE_MINUTES = "*/5 * * * *"


def checks_job(checks: Sequence[AssetChecksDefinition]) -> Any:
    """The job of these checks; none of them writes to a table."""
    return define_asset_job(
        "checks",
        AssetSelection.checks(*checks),
        description="Judges every pipeline by the built-in checks; hourly it audits the newest records.",
        tags={TAG_MAX_RUNTIME: str(CHECKS_MAX_RUNTIME_SECONDS), **NO_RETRY_TAGS},
        executor_def=in_process_executor,
    )


def checks_schedule(job: Any) -> ScheduleDefinition:
    """Skips while the last run is under way, so that slow checks do not pile up."""

    @schedule(
        name="checks",
        job=job,
        cron_schedule=EVERY_FIVE_MINUTES,
        default_status=DefaultScheduleStatus.RUNNING,
        description="Judges every pipeline, unless the last judgement is still under way.",
    )
    def checks(context: ScheduleEvaluationContext) -> RunRequest | SkipReason:
        under_way = context.instance.get_runs(RunsFilter(job_name=job.name, statuses=UNDER_WAY), limit=1)
        return SkipReason("The checks of five minutes ago still run.") if under_way else RunRequest()

    return checks
