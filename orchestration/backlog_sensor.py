"""The sensor that starts drains: one look at all pipelines, a run for each that is due."""

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dagster import (
    AssetObservation,
    DagsterInstance,
    ResourceParam,
    RunRequest,
    SensorEvaluationContext,
    SensorResult,
)

from assets.pipeline_asset import DRAIN, pool_of, table_key, topic_key
from orchestration.jobs import drain_job, watching
from orchestration.pools import announce_pools
from orchestration.rounds import Due, choose_rounds, is_small
from orchestration.run_requests import (
    Backlog,
    RunHistory,
    round_request,
    should_drain,
    state_key,
    uncompacted_files,
)
from resources.sluice import Sluice
from resources.spark import is_spark_local
from spark_jobs.config.settings import PipelineConfig, SluiceConfig
from spark_jobs.connections.endpoints import beat
from spark_jobs.drain.planning import bytes_per_record
from spark_jobs.monitoring.survey import Problem, Surveyed
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import SluiceError
from spark_jobs.protocol.source import SourceState, drain_refusal, held_back

# The daemon's own loop takes 5 s, so a shorter interval has no effect.
SECONDS_BETWEEN_TICKS = 5
# Dagster never deletes observations of a topic, so they are rare.
OBSERVED_EVERY_SECONDS = 3600.0
# For all topics together: about 1,400 observations a day, however many there are.
OBSERVED_SECONDS_EACH = 60.0
# The daemon writes each before it starts a tick's runs, in tenths of a second: the first tick has all topics.
MOST_OBSERVED = 10
PARTITIONS_SHOWN = 64
# Half of the time a round waits for the broker, Spark, and the disk, or for the tick after it.
ROUNDS_PER_CORE = 2
# Of ten runs at a time, `orchestration/dagster.yaml`: large drains and upkeep have the others.
MOST_ROUNDS = 6


@watching(
    SECONDS_BETWEEN_TICKS,
    "Requests a drain of every pipeline whose backlog is due by count, size or age.",
    job=drain_job,
)
def backlog_sensor(context: SensorEvaluationContext, sluice: ResourceParam[Sluice]) -> SensorResult:
    """Run one tick. The cursor stores only which problems and pauses were already logged."""
    announce_pools(context.instance, sluice.config.pipelines)
    # A pipeline with a schedule is drained only by its schedule.
    now = time.time()
    seen = sluice.surveyor.survey(lambda look: _may_be_due(look, now))
    beat(sluice.config.home)
    looks = [look for look in seen if look.pipeline.schedule is None]
    observed = topic_observations(seen, sluice, now)
    requests, problems = drains(
        looks, context.instance, sluice, should_drain, rounds=rounds_of(sluice.config)
    )
    known = json.loads(context.cursor) if context.cursor else {}
    for pipeline, problem in problems.items():
        if known.get(pipeline) != problem:
            context.log.warning("%s: %s", pipeline, problem)
    cursor = json.dumps(problems, sort_keys=True)
    if requests:
        return SensorResult(run_requests=requests, cursor=cursor, asset_events=observed)
    # Not in the cursor: open transactions are normal; the check `stall` reports one that stays open.
    texts = {
        look.pipeline.name: text for look in looks if (text := _open_transaction(look)) is not None
    } | problems
    reasons = "; ".join(f"{pipeline}: {text}" for pipeline, text in texts.items())
    reason = reasons or "No pipeline is due."
    return SensorResult(skip_reason=reason, cursor=cursor, asset_events=observed)


def rounds_of(config: SluiceConfig) -> int:
    """Return the most rounds at a time: none where runs start Spark and wait for the machine's pool."""
    given = config.runs.rounds
    default = min(ROUNDS_PER_CORE * (os.cpu_count() or 1), MOST_ROUNDS)
    return 0 if is_spark_local(config) else default if given is None else given


def drains(
    looks: Sequence[Surveyed | Problem],
    instance: DagsterInstance,
    sluice: Sluice,
    find_reason: Callable[[Backlog, PipelineConfig], str | None],
    *,
    rounds: int = 0,
) -> tuple[list[RunRequest], dict[str, str]]:
    """Return the run requests and, by pipeline, the problems that prevent one.

    Small drains share at most ``rounds`` runs; without any each has its own.
    """
    now = time.time()
    history = RunHistory(instance, drain_job.name, now)
    problems = {look.pipeline.name: look.reason for look in looks if isinstance(look, Problem)}
    problems |= {look.pipeline.name: why for look in looks if (why := _pause_reason(look)) is not None}
    asked = []
    for look in looks:
        if isinstance(look, Problem) or look.pipeline.name in problems:
            continue
        backlog = backlog_of(look, now)
        reason = find_reason(backlog, look.pipeline)
        if reason is not None and not history.is_under_way(table_key(look.pipeline)):
            asked.append((look, backlog, reason))
    history.recall([(look.pipeline.name, _state(look)) for look, _, _ in asked], in_rounds=rounds > 0)
    due = []
    for look, backlog, reason in asked:
        request = history.request(table_key(look.pipeline), look.pipeline.name, _state(look), reason)
        if request is None:
            continue
        # The log is read only for pipelines that would get a run: the run would stop at the held batch.
        if (held := _held_reason(look, sluice, now)) is not None:
            problems[look.pipeline.name] = held
        else:
            due.append(_due(look, backlog, request, history))
    if rounds:
        return _in_rounds(due, history, rounds, now), problems
    return [each.request for each in due], problems


def _due(look: Surveyed, backlog: Backlog, request: RunRequest, history: RunHistory) -> Due:
    pipeline, state = look.pipeline, _state(look)
    may_share = (
        is_small(backlog.records, backlog.bytes, pipeline)
        and backlog.disagreement is None
        and not history.attempts(pipeline.name, state)
        and not history.has_pool(pool_of(pipeline, DRAIN))
    )
    since = look.table.committed_at_ms / 1000 if look.table else 0.0
    return Due(pipeline.name, state, request, may_share, since)


def _in_rounds(due: Sequence[Due], history: RunHistory, rounds: int, now: float) -> list[RunRequest]:
    """Return a request for each round, and for each pipeline that has a run of its own."""
    slow = history.over_limit([each.pipeline for each in due if each.may_share])
    due = [replace(each, may_share=each.may_share and each.pipeline not in slow) for each in due]
    shared = choose_rounds(due, free=rounds - history.rounds_under_way)
    return [
        *(each.request for each in due if not each.may_share),
        *(
            round_request(members, drain_job.name, now) if len(members) > 1 else members[0].request
            for members in shared
        ),
    ]


def _may_be_due(look: Surveyed, now: float) -> bool:
    """True unless a drain is not due, whatever was committed since the table in ``look`` was read.

    Commits only shorten the backlog and its age. A paused table is read, since people resume it.
    """
    backlog = backlog_of(look, now)
    is_paused = _pause_reason(look) is not None and backlog.records > 0
    return is_paused or should_drain(backlog, look.pipeline) is not None


def backlog_of(look: Surveyed, now: float) -> Backlog:
    """Return the records that wait in the topic; ``now`` is seconds since the epoch."""
    if (table := look.table) is None:
        records = look.source.lag({})
        return Backlog(records, records * bytes_per_record(None), seconds_since_commit=None)
    progress, records = table.progress, look.source.lag(table.progress.next_offsets)
    # Ticks are frequent, so no partition leader is asked: the run itself detects a truncated topic.
    refusal = drain_refusal(progress, look.source, table=look.pipeline.table, ask_leader=None)
    return Backlog(
        records,
        records * bytes_per_record(progress.last_drain),
        seconds_since_commit=now - table.committed_at_ms / 1000,
        disagreement=refusal.message if refusal is not None else None,
        uncompacted_files=uncompacted_files(table.summary, progress.compacted_files),
    )


def _pause_reason(look: Surveyed | Problem) -> str | None:
    """Return why a paused pipeline gets no run, or None."""
    if isinstance(look, Problem) or look.table is None or look.table.progress.paused is None:
        return None
    paused = look.table.progress.paused
    return f"paused by {paused.actor}: {paused.reason}; to resume it: {mends.resume(look.pipeline.name)}"


def _open_transaction(look: Surveyed | Problem) -> str | None:
    undecided = 0 if isinstance(look, Problem) else sum(look.source.undecided.values())
    return held_back(undecided) if undecided else None


def _state(look: Surveyed) -> str:
    progress = look.table.progress if look.table else None
    state = [look.table.uuid, progress.generation, progress.next_offsets] if look.table and progress else None
    return state_key(look.pipeline, state)


def _held_reason(look: Surveyed, sluice: Sluice, now: float) -> str | None:
    """Return why no drain could commit because a batch waits for an operator, or None."""
    try:
        held = sluice.surveyor.held(look, round(now * 1e6))
    except SluiceError:
        return None  # the run itself reports what is wrong with the log
    return held[0].tell(look.pipeline.name) if held else None


def topic_observations(looks: Sequence[object], sluice: Sluice, now: float) -> list[AssetObservation]:
    """Return an observation of each topic that changed since its last one, at a limited rate.

    ``now`` is in seconds. The last observations are kept in memory while the code server runs.
    """
    readers: dict[str, list[Surveyed]] = defaultdict(list)
    for look in looks:
        if isinstance(look, Surveyed):
            readers[look.pipeline.topic].append(look)
    pause = max(OBSERVED_EVERY_SECONDS, OBSERVED_SECONDS_EACH * len(readers))
    found: list[AssetObservation] = []
    for topic, its in readers.items():
        observed_at, before = sluice.topics_observed.get(topic, (float("-inf"), None))
        metadata = _ends(its[0].source) | {f"lag_{look.pipeline.name}": _lag(look) for look in its}
        is_due = metadata != before and not 0 <= now - observed_at < pause
        if is_due and len(found) < MOST_OBSERVED:
            sluice.topics_observed[topic] = (now, metadata)
            found.append(AssetObservation(topic_key(topic), metadata=metadata))
    return found


def _ends(source: SourceState) -> dict[str, Any]:
    held = sum(source.end[partition] - low for partition, low in source.low.items())
    ends = {"end_offsets": {str(p): end for p, end in sorted(source.end.items())}}
    return {"offsets_held": held, **(ends if len(source.end) <= PARTITIONS_SHOWN else {})}


def _lag(look: Surveyed) -> int:
    return look.source.lag(look.table.progress.next_offsets if look.table else {})
