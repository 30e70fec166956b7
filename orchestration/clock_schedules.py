"""The schedules of drains and upkeep, one for each cron expression and time zone, and that of all checks.

A tick requests the runs that a sensor would request. Records of a late or missed tick wait in the topic.
Checks run every five minutes.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from dagster import (
    DagsterInstance,
    ResourceParam,
    RunRequest,
    RunsFilter,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    SkipReason,
    schedule,
)

from assets.pipeline_asset import (
    CHECKS,
    DRAIN,
    SCHEDULED_DRAIN_MAX_RUNTIME_SECONDS,
    TAG_MAX_RUNTIME,
    UPKEEP,
    named_failures,
    step_name,
)
from orchestration.backlog_sensor import drains
from orchestration.jobs import SCHEDULE, drain_job, upkeep_job
from orchestration.pools import announce_pools
from orchestration.run_requests import UNDER_WAY, RunHistory, should_drain_now
from orchestration.upkeep_sensor import tidying
from resources.sluice import Sluice
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.monitoring.survey import Problem

EVERY_FIVE_MINUTES = "*/5 * * * *"
# A slow daily run must not make the next night's tick come too early for work that is done once a day.
EARLY_SECONDS = 2 * 3600.0
NAMES_SHOWN = 20

# Returns the run requests of the named pipelines that are due, and the problems of others.
Ask = Callable[[frozenset[str], Sluice, DagsterInstance], tuple[list[RunRequest], dict[str, str]]]


def clock_schedules(pipelines: Iterable[PipelineConfig]) -> Iterator[ScheduleDefinition]:
    """Yield the schedules of drains and upkeep; each can be switched off in the UI."""
    by_clock: dict[tuple[str, str, str], list[PipelineConfig]] = defaultdict(list)
    for pipeline in pipelines:
        for work, cron in ((DRAIN, pipeline.schedule), (UPKEEP, pipeline.upkeep.schedule)):
            if cron:
                by_clock[work, cron, pipeline.timezone].append(pipeline)
    for (work, cron, timezone), due in by_clock.items():
        yield _schedule(work, cron, timezone, due)


def _schedule(work: str, cron: str, timezone: str, pipelines: Sequence[PipelineConfig]) -> ScheduleDefinition:
    names = [pipeline.name for pipeline in pipelines]
    further = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    ask: Ask
    job, ask = (drain_job, _drains) if work == DRAIN else (upkeep_job, _upkeeps)

    @schedule(
        name=step_name(work, f"{cron.replace('*', 'x')} {timezone}"),
        job=job,
        cron_schedule=cron,
        execution_timezone=timezone,
        default_status=SCHEDULE,
        description=f"Starts the {work} of {', '.join(names[:NAMES_SHOWN])}{further} at {cron} ({timezone}).",
    )
    @named_failures()
    def tick(
        context: ScheduleEvaluationContext, sluice: ResourceParam[Sluice]
    ) -> list[RunRequest] | SkipReason:
        announce_pools(context.instance, pipelines)
        requests, problems = ask(frozenset(names), sluice, context.instance)
        for pipeline, problem in problems.items():
            context.log.warning("%s: %s", pipeline, problem)
        reasons = "; ".join(f"{pipeline}: {problem}" for pipeline, problem in problems.items())
        return requests or SkipReason(reasons or "No pipeline is due.")

    return tick


def _drains(
    names: frozenset[str], sluice: Sluice, instance: DagsterInstance
) -> tuple[list[RunRequest], dict[str, str]]:
    looks = [look for look in sluice.surveyor.survey() if look.pipeline.name in names]
    requests, problems = drains(looks, instance, sluice, should_drain_now)
    longer = {TAG_MAX_RUNTIME: str(SCHEDULED_DRAIN_MAX_RUNTIME_SECONDS)}
    return [request.with_replaced_attrs(tags={**request.tags, **longer}) for request in requests], problems


def _upkeeps(
    names: frozenset[str], sluice: Sluice, instance: DagsterInstance
) -> tuple[list[RunRequest], dict[str, str]]:
    now = time.time()
    looks = [look for look in sluice.surveyor.upkeep(int(now * 1e6)) if look.pipeline.name in names]
    states = [look for look in looks if not isinstance(look, Problem)]
    due = tidying(states, {}, instance, now + EARLY_SECONDS)
    requests = RunHistory(instance, upkeep_job.name, now).requests(due)
    return requests, {look.pipeline.name: look.reason for look in looks if isinstance(look, Problem)}


@schedule(
    name="checks",
    job_name=CHECKS,
    cron_schedule=EVERY_FIVE_MINUTES,
    default_status=SCHEDULE,
    description="Runs the checks of every pipeline, unless the last run of them is still active.",
)
def checks_schedule(context: ScheduleEvaluationContext) -> RunRequest | SkipReason:
    """Request a run, unless the last one is still active: slow checks do not pile up."""
    under_way = context.instance.get_runs(RunsFilter(job_name=CHECKS, statuses=UNDER_WAY), limit=1)
    return SkipReason("The last run of the checks is still active.") if under_way else RunRequest()
