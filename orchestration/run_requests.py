"""Decides when a pipeline is due for a run and requests it: one at a time, with pauses after failures.

Dagster skips a ``run_key`` that it has seen before, also after a failed run, so the key ends in an attempt
number. Earlier runs are read from the instance, not from a cursor, since people start runs too.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dagster import (
    AssetKey,
    DagsterInstance,
    DagsterRun,
    DagsterRunStatus,
    RunRecord,
    RunRequest,
    RunsFilter,
)

from assets.pipeline_asset import DRAIN, DRAIN_RESERVE_SECONDS, TAG_MAX_RUNTIME, step_name
from assets.rounds import IS_ROUND, TAG_OVER_LIMIT, TAG_ROUND
from spark_jobs.config.quantities import StartKind
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.texts import records_wait
from spark_jobs.upkeep.figures import SMALL

if TYPE_CHECKING:
    from orchestration.rounds import Due

UNDER_WAY = [
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]
ENDED = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]
TAG_PIPELINE = "sluice/pipeline"
TAG_REASON = "sluice/reason"
# State between ticks. Dagster can filter by tags with this prefix and hides them in the UI. A round has no
# attempt, and as its state a JSON object of states by pipeline.
TAG_STATE = ".dagster/sluice-state"
TAG_ATTEMPT = ".dagster/sluice-attempt"
# The names of these tags on runs of earlier versions.
_EARLIER_TAGS = ("sluice/state", "sluice/attempt")
# Newest first. Whoever fails is asked for at least every five minutes, six times in its first five.
_RECORDS_EACH = 8
# Rounds are remembered longer than the longest pause, and who was over the limit in one for a day.
ROUNDS_REMEMBERED_SECONDS = 600.0
OVER_LIMIT_SECONDS = 24 * 3600.0
# A flow that keeps filling batches would use up the limit of its step.
ROUND_BUDGET_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Wanted:
    """Work on an asset that is due; attempts are counted from ``state``."""

    key: AssetKey
    pipeline: str
    state: str
    reason: str


class RunHistory:
    """The instance's runs at one tick of a sensor; ``now`` is seconds since the epoch."""

    def __init__(self, instance: DagsterInstance, job_name: str, now: float) -> None:
        self._instance = instance
        self._job_name = job_name
        self._now = now
        self._under_way = instance.get_runs(filters=RunsFilter(statuses=UNDER_WAY))
        # By pipeline and state: the number of runs that began from it, and the end of the last in seconds.
        self._made: dict[tuple[str, str], tuple[int, float]] = {}

    def is_under_way(self, key: AssetKey) -> bool:
        """True if a run of the asset is queued or in progress, however it was started."""
        return any(
            key in run.asset_selection if run.asset_selection else run.job_name == self._job_name
            for run in self._under_way
        )

    def has_pool(self, pool: str) -> bool:
        """True if another run would wait for the pool: one that uses it is queued or in progress."""
        used = (run.run_op_concurrency for run in self._under_way)
        return any(each is not None and pool in (each.all_pools or ()) for each in used)

    @property
    def rounds_under_way(self) -> int:
        """Return the number of rounds that are queued or in progress."""
        return sum(TAG_ROUND in run.tags for run in self._under_way)

    def recall(self, asked: Collection[tuple[str, str]], *, in_rounds: bool = False) -> None:
        """Read the attempts of all these pipelines, each from its state, by the same few queries.

        ``in_rounds`` also reads those in rounds.
        """
        self._made |= dict.fromkeys(asked, (0, 0.0))
        for tags in (TAG_STATE, TAG_ATTEMPT), _EARLIER_TAGS:
            self._recall_alone(frozenset(asked), *tags)
        if asked and in_rounds:
            self._recall_rounds(frozenset(asked))

    def _recall_alone(self, asked: frozenset[tuple[str, str]], state_tag: str, attempt_tag: str) -> None:
        if not asked:
            return
        wanted = RunsFilter(job_name=self._job_name, tags={state_tag: [state for _, state in asked]})
        limit, found = _RECORDS_EACH * len(asked), set()
        records = self._instance.get_run_records(wanted, limit)
        for record in records:
            tags = record.dagster_run.tags
            each = tags.get(TAG_PIPELINE, ""), tags[state_tag]
            if each in asked:
                self._made[each] = max(self._made[each], (1 + int(tags[attempt_tag]), _ended(record)))
                found.add(each)
        # The last run of one may be older than so many of the others.
        for each in asked - found if len(records) == limit and len(asked) > 1 else ():
            self._recall_alone(frozenset([each]), state_tag, attempt_tag)

    def _recall_rounds(self, asked: frozenset[tuple[str, str]]) -> None:
        rounds = RunsFilter(
            job_name=self._job_name,
            tags={TAG_ROUND: IS_ROUND},
            statuses=ENDED,
            updated_after=self._before(ROUNDS_REMEMBERED_SECONDS),
        )
        for record in self._instance.get_run_records(rounds):
            members = asked & json.loads(record.dagster_run.tags[TAG_STATE]).items()
            names = {name for name, _ in members}
            tried = attempted(record.dagster_run, names, self._instance) if names else ()
            for each in (each for each in members if each[0] in tried):
                self._made[each] = max(self._made[each], (1, _ended(record)))

    def _before(self, seconds: float) -> datetime:
        """Return the time that long ago, by the earlier of two clocks if one was set back."""
        return datetime.fromtimestamp(min(self._now, time.time()) - seconds, UTC)

    def over_limit(self, pipelines: Collection[str]) -> frozenset[str]:
        """Return those whose step was interrupted in a round of the last day."""
        if not pipelines:
            return frozenset()
        tags = {TAG_OVER_LIMIT: [*pipelines]}
        runs = self._instance.get_runs(RunsFilter(tags=tags, created_after=self._before(OVER_LIMIT_SECONDS)))
        return frozenset(run.tags[TAG_OVER_LIMIT] for run in runs)

    def attempts(self, pipeline: str, state: str) -> int:
        """Return the number of attempts made from the state."""
        if (pipeline, state) not in self._made:
            self.recall([(pipeline, state)])
        return self._made[pipeline, state][0]

    def requests(self, due: Iterable[Wanted]) -> list[RunRequest]:
        """Return the requests for all that are neither under way nor in a pause."""
        due = [each for each in due if not self.is_under_way(each.key)]
        self.recall([(each.pipeline, each.state) for each in due])
        found = (self.request(each.key, each.pipeline, each.state, each.reason) for each in due)
        return [each for each in found if each is not None]

    def request(self, key: AssetKey, pipeline: str, state: str, reason: str) -> RunRequest | None:
        """Return the request for the next attempt from ``state``, or None during a pause."""
        attempts_made = self.attempts(pipeline, state)
        ended = self._made[pipeline, state][1]
        # An end in the future means that a clock was set back: it is ignored.
        if 0 <= self._now - ended < retry_delay_seconds(attempts_made):
            return None
        return RunRequest(
            run_key=f"{pipeline}:{state}:{attempts_made}",
            job_name=self._job_name,
            asset_selection=[key],
            # Without this, all checks of the table would run too, and every commit would wait for them.
            asset_check_keys=[],
            tags={
                TAG_PIPELINE: pipeline,
                TAG_STATE: state,
                TAG_ATTEMPT: str(attempts_made),
                TAG_REASON: reason,
            },
        )


def attempted(run: DagsterRun, pipelines: Collection[str], instance: DagsterInstance) -> Collection[str]:
    """Return those pipelines of an ended round whose drain was an attempt: its step began.

    Of a round that ended before any step all are, or it would be asked for again without a pause.
    """
    if run.status is DagsterRunStatus.SUCCESS:
        return pipelines
    begun = {stats.step_key for stats in instance.get_run_step_stats(run.run_id) if stats.start_time}
    return [name for name in pipelines if not begun or step_name(DRAIN, name) in begun]


def round_request(members: Sequence[Due], job_name: str, now: float) -> RunRequest:
    """Return the request for one run of several tables.

    Its key never repeats: a member that was not reached is asked for again from the same state.
    """
    states = {each.pipeline: each.state for each in members}
    return RunRequest(
        run_key=f"round:{short_hash(states)}:{now:.0f}",
        job_name=job_name,
        asset_selection=[key for each in members for key in each.request.asset_selection or ()],
        asset_check_keys=[],
        tags={
            TAG_ROUND: IS_ROUND,
            TAG_STATE: json.dumps(states),
            TAG_PIPELINE: ", ".join(states),
            TAG_REASON: members[0].request.tags[TAG_REASON],
            TAG_MAX_RUNTIME: str(DRAIN_RESERVE_SECONDS + ROUND_BUDGET_SECONDS),
        },
    )


def _ended(record: RunRecord) -> float:
    return record.end_time or record.create_timestamp.timestamp()


# When a pipeline is due for a drain, and when to retry one without progress.


FIRST_RETRY_SECONDS = 10.0
LONGEST_RETRY_SECONDS = 300.0
# Compaction starts at `compact_above` files and takes minutes; at ten times as many it does not keep up.
UNCOMPACTED_LIMIT_FACTOR = 10
LONGEST_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Backlog:
    """The backlog of a pipeline, from one look at its topic and table.

    ``records`` is an upper bound (markers count), ``bytes`` an estimate. ``seconds_since_commit`` is None
    without a table. ``disagreement`` describes how the source differs from the one that was drained.
    ``uncompacted_files`` is the number of small data files since the last compaction.
    """

    records: int
    bytes: int
    seconds_since_commit: float | None
    disagreement: str | None = None
    uncompacted_files: int = 0


def should_drain(backlog: Backlog, pipeline: PipelineConfig) -> str | None:
    """Return why a run is due now, or None.

    A disagreement is a reason: the run then fails with the named error, which a skipped tick would hide.
    """
    if backlog.disagreement:
        return backlog.disagreement
    if backlog.seconds_since_commit is None:
        return _without_table(backlog, pipeline)
    return _with_table(backlog, backlog.seconds_since_commit, pipeline) if backlog.records else None


def should_drain_now(backlog: Backlog, pipeline: PipelineConfig) -> str | None:
    """Return why a run is due at the schedule's tick, or None; any waiting record is a reason."""
    if backlog.disagreement or backlog.seconds_since_commit is None or not backlog.records:
        return should_drain(backlog, pipeline)
    return f"{records_wait(backlog.records)} at the tick of schedule {pipeline.schedule}"


def _without_table(backlog: Backlog, pipeline: PipelineConfig) -> str | None:
    if pipeline.start.kind is StartKind.LATEST:
        return "the table does not exist yet and starts at the current end of the topic"
    return f"the table does not exist yet and {records_wait(backlog.records)}" if backlog.records else None


def _with_table(backlog: Backlog, age_seconds: float, pipeline: PipelineConfig) -> str | None:
    if backlog.records >= pipeline.max_batch_records:
        return f"{records_wait(backlog.records)}, a full batch by count"
    if backlog.bytes >= pipeline.max_batch_bytes:
        return f"about {backlog.bytes:,} bytes wait, a full batch by size"
    if age_seconds < 0:
        return f"{records_wait(backlog.records)}, and the last commit is in the future: a clock was set back"
    factor = patience(backlog.uncompacted_files, pipeline)
    every_seconds = pipeline.freshness_seconds * factor
    if age_seconds >= every_seconds:
        why = f" (longer because {backlog.uncompacted_files:,} files are uncompacted)" if factor > 1 else ""
        due = f"freshness requires a batch every {every_seconds:.0f} s"
        return f"{records_wait(backlog.records)}, and {due}{why}"
    return None


def patience(uncompacted_files: int, pipeline: PipelineConfig) -> float:
    """Return the factor by which batches may exceed ``freshness``, so that fewer files are written."""
    limit = pipeline.upkeep.compact_above * UNCOMPACTED_LIMIT_FACTOR
    return max(1.0, min(LONGEST_PATIENCE, uncompacted_files / limit))


def uncompacted_files(summary: Mapping[str, str], compacted_files: int) -> int:
    """Return the number of data files since the last compaction; 0 if the last commit's files are not small.

    ``summary`` is that of the newest snapshot. Large files need no compaction, so batches do not wait.
    """
    added, size = int(summary.get("added-data-files", 0)), int(summary.get("added-files-size", 0))
    if not added or size >= added * SMALL.below_bytes:
        return 0
    return max(0, int(summary.get("total-data-files", 0)) - compacted_files)


def state_key(pipeline: PipelineConfig, table_state: object) -> str:
    """Return a short hash of the state that a drain starts from; if it changes, a retry starts at once.

    ``table_state`` is JSON-able: table uuid, generation and next offsets, or None without a table.
    """
    return short_hash([pipeline.model_dump(mode="json"), table_state])


def short_hash(value: object) -> str:
    """Return a hash of a JSON-able value, 16 hex digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def retry_delay_seconds(attempts_made: int) -> float:
    """Return the pause after the last of ``attempts_made`` runs from the same state ended."""
    if attempts_made == 0:
        return 0.0
    return min(FIRST_RETRY_SECONDS * 2.0 ** min(attempts_made - 1, 10), LONGEST_RETRY_SECONDS)
