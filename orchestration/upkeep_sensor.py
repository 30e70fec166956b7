"""The upkeep sensor: requests upkeep by tables' metadata and logs, and orphan removal once a day.

It also requests a drain to finish or undo what a killed run left behind.
"""

import json
import time
from collections.abc import Iterator, Mapping

from dagster import (
    AssetKey,
    DagsterInstance,
    ResourceParam,
    RunRequest,
    SensorEvaluationContext,
    SensorResult,
)

from assets.pipeline_asset import table_key, upkeep_key
from orchestration.jobs import drain_job, upkeep_job, watching
from orchestration.run_requests import RunHistory, state_key
from resources.sluice import Sluice
from spark_jobs.books.entries import is_due
from spark_jobs.monitoring.survey import Problem
from spark_jobs.monitoring.upkeep_survey import UpkeepState
from spark_jobs.protocol.texts import count
from spark_jobs.txlog.entries import is_held
from spark_jobs.upkeep.registry import KINDS, due_upkeep

SECONDS_BETWEEN_TICKS = 60
# A drain from the command line is not among Dagster's runs; its attempts take seconds.
UNFINISHED_SECONDS = 120.0


@watching(
    SECONDS_BETWEEN_TICKS,
    "Requests upkeep of tables and logs that are due, and drains that recover interrupted runs.",
    jobs=[upkeep_job, drain_job],
)
def upkeep_sensor(context: SensorEvaluationContext, sluice: ResourceParam[Sluice]) -> SensorResult:
    """Run one tick. The cursor stores since when each pipeline is watched: no orphan is older than that."""
    now = time.time()
    looks = sluice.surveyor.upkeep(int(now * 1_000_000))
    drains = RunHistory(context.instance, drain_job.name, now)
    upkeeps = RunHistory(context.instance, upkeep_job.name, now)
    states = [look for look in looks if not isinstance(look, Problem)]
    known: dict[str, float] = json.loads(context.cursor) if context.cursor else {}
    since = {state.pipeline.name: known.get(state.pipeline.name, now) for state in states}
    # A pipeline with an upkeep schedule is compacted and cleaned only by that schedule.
    unscheduled = [state for state in states if state.pipeline.upkeep.schedule is None]
    requests = [
        *(each for state in states for each in (*_settle(state, drains, now), *_fold(state, upkeeps, now))),
        *(each for state in unscheduled for each in tidying(state, upkeeps, since, context.instance, now)),
    ]
    cursor = json.dumps(known | since, sort_keys=True)
    if requests:
        return SensorResult(run_requests=requests, cursor=cursor)
    reasons = "; ".join(f"{look.pipeline.name}: {look.reason}" for look in looks if isinstance(look, Problem))
    return SensorResult(
        skip_reason=reasons or "No upkeep is due and no attempt is unfinished.", cursor=cursor
    )


def _settle(state: UpkeepState, history: RunHistory, now: float) -> Iterator[RunRequest]:
    before_us = (now - UNFINISHED_SECONDS) * 1_000_000
    # A held attempt waits for an operator: a drain would only stop at it.
    left = sorted(
        attempt.uuid
        for attempt in state.unfinished
        if (attempt.started_at_us or 0) < before_us and not is_held(attempt)
    )
    if left:
        reason = f"{count(len(left), 'attempt was', 'attempts were')} left unfinished"
        yield from _request(table_key(state.pipeline), state, history, left, reason)


def _fold(state: UpkeepState, history: RunHistory, now: float) -> Iterator[RunRequest]:
    """Yield a request for the log: to move finished attempts into the books, or to send pending notices."""
    owed = state.oldest_owed
    if is_due(state.finished - state.without_notice):
        reason = count(state.finished - state.without_notice, "finished attempt")
        yield from _request(upkeep_key(state.pipeline, "log"), state, history, "log", reason)
    elif owed and owed.started_at_us < (now - UNFINISHED_SECONDS) * 1_000_000:
        reason = f"the webhook did not accept the notice of {owed.uuid}"
        yield from _request(upkeep_key(state.pipeline, "log"), state, history, "notices", reason)


def tidying(
    state: UpkeepState,
    history: RunHistory,
    watched_since: Mapping[str, float],
    instance: DagsterInstance,
    now: float,
) -> Iterator[RunRequest]:
    """Yield requests for the upkeep that is due.

    A request's state is the kind alone, since drains change the table all the time: upkeep that failed, or
    has just run, waits up to five minutes. ``watched_since`` is, by pipeline, the time from which daily
    upkeep counts.
    """
    due = due_upkeep(
        state.figures,
        state.pipeline.upkeep,
        now_ms=int(now * 1000),
        seconds_since=_seconds_since(instance, state, watched_since, now),
    )
    for upkeep in due:
        key = upkeep_key(state.pipeline, upkeep.kind.name)
        yield from _request(key, state, history, upkeep.kind.name, upkeep.reason)


def _request(
    key: AssetKey, state: UpkeepState, history: RunHistory, from_state: object, reason: str
) -> Iterator[RunRequest]:
    if not history.is_under_way(key):
        name = state_key(state.pipeline, from_state)
        request = history.request(key, state.pipeline.name, name, reason)
        yield from [request] if request else []


def _seconds_since(
    instance: DagsterInstance, state: UpkeepState, since: Mapping[str, float], now: float
) -> dict[str, float]:
    """Return, by kind, the seconds since upkeep that runs by the clock was last done, or first watched."""
    ages = {}
    for kind in KINDS:
        if kind.goes_by_clock:
            last = instance.get_latest_materialization_event(upkeep_key(state.pipeline, kind.name))
            ages[kind.name] = now - max(since.get(state.pipeline.name, 0.0), last.timestamp if last else 0.0)
    return ages
