"""The upkeep sensor: requests upkeep by tables' metadata and logs, and orphan removal once a day.

It also requests a drain to finish or undo what a killed run left behind.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from dagster import (
    AssetKey,
    DagsterInstance,
    ResourceParam,
    SensorEvaluationContext,
    SensorResult,
)

from assets.pipeline_asset import table_key, upkeep_key
from orchestration.jobs import drain_job, upkeep_job, watching
from orchestration.run_requests import RunHistory, Wanted, state_key
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
_BY_CLOCK = [kind for kind in KINDS if kind.goes_by_clock]


@watching(
    SECONDS_BETWEEN_TICKS,
    "Requests upkeep of tables and logs that are due, and drains that recover interrupted runs.",
    jobs=[upkeep_job, drain_job],
)
def upkeep_sensor(context: SensorEvaluationContext, sluice: ResourceParam[Sluice]) -> SensorResult:
    """Run one tick. The cursor stores since when each pipeline is watched: no orphan is older than that."""
    now = time.time()
    looks = sluice.surveyor.upkeep(int(now * 1_000_000), partial(_is_at_work, now=now))
    drains = RunHistory(context.instance, drain_job.name, now)
    upkeeps = RunHistory(context.instance, upkeep_job.name, now)
    states = [look for look in looks if not isinstance(look, Problem)]
    known: dict[str, float] = json.loads(context.cursor) if context.cursor else {}
    since = {state.pipeline.name: known.get(state.pipeline.name, now) for state in states}
    # A pipeline with an upkeep schedule is compacted and cleaned only by that schedule.
    unscheduled = [state for state in states if state.pipeline.upkeep.schedule is None]
    folds = [each for state in states for each in _fold(state, now)]
    requests = [
        *drains.requests(each for state in states for each in _settle(state, now)),
        *upkeeps.requests([*folds, *tidying(unscheduled, since, context.instance, now)]),
    ]
    cursor = json.dumps(known | since, sort_keys=True)
    if requests:
        return SensorResult(run_requests=requests, cursor=cursor)
    reasons = "; ".join(f"{look.pipeline.name}: {look.reason}" for look in looks if isinstance(look, Problem))
    return SensorResult(
        skip_reason=reasons or "No upkeep is due and no attempt is unfinished.", cursor=cursor
    )


def _is_at_work(state: UpkeepState, now: float) -> bool:
    """True if more than the table's commits may change what is due."""
    just_now = dict.fromkeys((kind.name for kind in _BY_CLOCK), 0.0)
    is_due = due_upkeep(state.figures, state.pipeline.upkeep, now_ms=int(now * 1000), seconds_since=just_now)
    return bool(is_due or state.unfinished or state.oldest_owed or _folds(state))


def _settle(state: UpkeepState, now: float) -> Iterator[Wanted]:
    before_us = (now - UNFINISHED_SECONDS) * 1_000_000
    # A held attempt waits for an operator: a drain would only stop at it.
    left = sorted(
        attempt.uuid
        for attempt in state.unfinished
        if (attempt.started_at_us or 0) < before_us and not is_held(attempt)
    )
    if left:
        reason = f"{count(len(left), 'attempt was', 'attempts were')} left unfinished"
        yield _wanted(table_key(state.pipeline), state, left, reason)


def _folds(state: UpkeepState) -> bool:
    return is_due(state.finished - state.without_notice)


def _fold(state: UpkeepState, now: float) -> Iterator[Wanted]:
    """Yield work on the log: to move finished attempts into the books, or to send pending notices."""
    owed = state.oldest_owed
    if _folds(state):
        reason = count(state.finished - state.without_notice, "finished attempt")
        yield _wanted(upkeep_key(state.pipeline, "log"), state, "log", reason)
    elif owed and owed.started_at_us < (now - UNFINISHED_SECONDS) * 1_000_000:
        reason = f"the webhook did not accept the notice of {owed.uuid}"
        yield _wanted(upkeep_key(state.pipeline, "log"), state, "notices", reason)


def tidying(
    states: Sequence[UpkeepState], watched_since: Mapping[str, float], instance: DagsterInstance, now: float
) -> Iterator[Wanted]:
    """Yield the upkeep that is due.

    Attempts are counted by kind alone, since drains change the table all the time: upkeep that failed, or has
    just run, waits up to five minutes. ``watched_since`` is, by pipeline, the time from which daily upkeep
    counts.
    """
    done_at = _done_at(instance, states)
    for state in states:
        since = watched_since.get(state.pipeline.name, 0.0)
        ages = {
            kind.name: now - max(since, done_at.get(upkeep_key(state.pipeline, kind.name), 0.0))
            for kind in _BY_CLOCK
        }
        due = due_upkeep(state.figures, state.pipeline.upkeep, now_ms=int(now * 1000), seconds_since=ages)
        for upkeep in due:
            kind = upkeep.kind.name
            yield _wanted(upkeep_key(state.pipeline, kind), state, kind, upkeep.reason)


def _wanted(key: AssetKey, state: UpkeepState, from_state: object, reason: str) -> Wanted:
    return Wanted(key, state.pipeline.name, state_key(state.pipeline, from_state), reason)


def _done_at(instance: DagsterInstance, states: Sequence[UpkeepState]) -> dict[AssetKey, float]:
    """Return when upkeep that runs by the clock was last done, by asset; one query for all."""
    keys = [upkeep_key(state.pipeline, kind.name) for state in states for kind in _BY_CLOCK]
    entries = [record.asset_entry for record in (instance.get_asset_records(keys) if keys else ())]
    last = ((entry.asset_key, entry.last_materialization) for entry in entries)
    return {key: event.timestamp for key, event in last if event is not None}
