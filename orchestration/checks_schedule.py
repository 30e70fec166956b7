"""Runs every pipeline's checks every five minutes: what nobody looks at is judged all the same."""

from dagster import (
    RunRequest,
    RunsFilter,
    ScheduleEvaluationContext,
    SkipReason,
    schedule,
)

from assets.limits import CHECKS
from orchestration import switches
from orchestration.run_requests import UNDER_WAY

EVERY_FIVE_MINUTES = "*/5 * * * *"


@schedule(
    name="checks",
    job_name=CHECKS,
    cron_schedule=EVERY_FIVE_MINUTES,
    default_status=switches.SCHEDULE,
    description="Judges every pipeline, unless the last judgement is still under way.",
)
def checks_schedule(context: ScheduleEvaluationContext) -> RunRequest | SkipReason:
    """Ask for a run, unless the last one is under way: slow checks do not pile up."""
    under_way = context.instance.get_runs(RunsFilter(job_name=CHECKS, statuses=UNDER_WAY), limit=1)
    return SkipReason("The checks of five minutes ago still run.") if under_way else RunRequest()
