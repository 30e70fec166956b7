"""The sensor of the transaction logs: folds long ones, and has a run settle what a killed one left behind.

A count of finished attempts is the condition: it is what recovery pays for, whatever the pace of commits.
"""

import time
from collections.abc import Iterator

from dagster import (
    DefaultSensorStatus,
    ResourceParam,
    RunRequest,
    SensorEvaluationContext,
    SensorResult,
    sensor,
)

from assets.keys import table_key, txlog_key
from orchestration.jobs import checkpoint_job, drain_job
from orchestration.run_requests import RunHistory
from orchestration.triggers import state_key
from resources.sluice import Sluice
from resources.survey import LogState, Problem
from spark_jobs.core.txlog_checkpoint import is_due

SECONDS_BETWEEN_TICKS = 60
# A drain from the command line is not among Dagster's runs; its attempts take seconds.
UNFINISHED_SECONDS = 120.0


@sensor(
    name="txlog_sensor",
    jobs=[checkpoint_job, drain_job],
    minimum_interval_seconds=SECONDS_BETWEEN_TICKS,
    default_status=DefaultSensorStatus.RUNNING,
    description="Asks for checkpoints of long logs, and for drains where an attempt was left unfinished.",
)
def txlog_sensor(context: SensorEvaluationContext, sluice: ResourceParam[Sluice]) -> SensorResult:
    """One tick."""
    now = time.time()
    looked = sluice.logs(int(now * 1_000_000))
    drains = RunHistory(context.instance, drain_job.name, now)
    checkpoints = RunHistory(context.instance, checkpoint_job.name, now)
    problems = [look for look in looked if isinstance(look, Problem)]
    requests = [
        request
        for look in looked
        if not isinstance(look, Problem)
        for request in (*_settle(look, drains, now), *_fold(look, checkpoints))
    ]
    if requests:
        return SensorResult(run_requests=requests)
    reasons = "; ".join(f"{problem.pipeline.name}: {problem.error}" for problem in problems)
    return SensorResult(skip_reason=reasons or "Nothing to fold, nothing unfinished.")


def _settle(log: LogState, history: RunHistory, now: float) -> Iterator[RunRequest]:
    before_us = (now - UNFINISHED_SECONDS) * 1_000_000
    left = sorted(attempt.uuid for attempt in log.unfinished if (attempt.started_at_us or 0) < before_us)
    key = table_key(log.pipeline)
    if left and not history.is_under_way(key):
        reason = f"{len(left)} attempts were left unfinished"
        request = history.request(key, log.pipeline.name, state_key(log.pipeline, left), reason)
        yield from [request] if request else []


def _fold(log: LogState, history: RunHistory) -> Iterator[RunRequest]:
    key = txlog_key(log.pipeline)
    if is_due(log.finished) and not history.is_under_way(key):
        reason = f"{log.finished} finished attempts"
        request = history.request(key, log.pipeline.name, state_key(log.pipeline, reason), reason)
        yield from [request] if request else []
