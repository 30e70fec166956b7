"""Asking for a run of one pipeline: never beside one under way, and after failures with growing pauses.

Dagster skips a ``run_key`` it has seen for ever, failed runs included, so the key ends in an attempt number.
What happened is read from the instance, not from a cursor: people start runs too.
"""

from __future__ import annotations

from collections.abc import Iterable

from dagster import AssetKey, DagsterInstance, DagsterRunStatus, RunRequest, RunsFilter

from assets.limits import pools_of
from orchestration.triggers import retry_delay_seconds
from spark_jobs.config.settings import PipelineConfig

UNDER_WAY = [
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]
TAG_PIPELINE = "sluice/pipeline"
TAG_REASON = "sluice/reason"
# The memory between ticks; with this prefix Dagster finds them and shows them to nobody.
TAG_STATE = ".dagster/sluice-state"
TAG_ATTEMPT = ".dagster/sluice-attempt"
# What they were called on runs of before.
_EARLIER_TAGS = ("sluice/state", "sluice/attempt")


class RunHistory:
    """The instance's runs as one tick of a sensor sees them; ``now`` is seconds since the epoch."""

    def __init__(self, instance: DagsterInstance, job_name: str, now: float) -> None:
        self._instance = instance
        self._job_name = job_name
        self._now = now
        self._under_way = instance.get_runs(filters=RunsFilter(statuses=UNDER_WAY))

    def is_under_way(self, key: AssetKey) -> bool:
        """True if a run of the asset is queued or in progress, whoever asked for it."""
        return any(
            key in run.asset_selection if run.asset_selection else run.job_name == self._job_name
            for run in self._under_way
        )

    def request(self, key: AssetKey, pipeline: str, state: str, reason: str) -> RunRequest | None:
        """Return the request for the next attempt from ``state``, or None while its pause lasts."""
        attempts_made, ended = self._last(pipeline, state)
        # An end that is yet to come is of a clock that was set back: it says nothing.
        if 0 <= self._now - ended < retry_delay_seconds(attempts_made):
            return None
        return RunRequest(
            run_key=f"{pipeline}:{state}:{attempts_made}",
            job_name=self._job_name,
            asset_selection=[key],
            # Left out, all checks of the table would run with it, and every commit wait for them.
            asset_check_keys=[],
            tags={
                TAG_PIPELINE: pipeline,
                TAG_STATE: state,
                TAG_ATTEMPT: str(attempts_made),
                TAG_REASON: reason,
            },
        )

    def _last(self, pipeline: str, state: str) -> tuple[int, float]:
        """Return how many runs began from ``state``, and when the last ended (seconds since the epoch)."""
        for state_tag, attempt_tag in ((TAG_STATE, TAG_ATTEMPT), _EARLIER_TAGS):
            tags = {TAG_PIPELINE: pipeline, state_tag: state}
            for last in self._instance.get_run_records(RunsFilter(job_name=self._job_name, tags=tags), 1):
                ended = last.end_time or last.create_timestamp.timestamp()
                return 1 + int(last.dagster_run.tags[attempt_tag]), ended
        return 0, 0.0


def announce_pools(instance: DagsterInstance, pipelines: Iterable[PipelineConfig]) -> None:
    """Give each pool that the instance has not met its default limit; one query when there is none.

    Dagster (1.13) gives a pool that limit when it first meets it in the queue, but that first look still lets
    every run go that waits for it: both windows of a first backfill ran at once, and the second took the
    first for dead.
    """
    storage = instance.event_log_storage
    if not storage.supports_global_concurrency_limits or not instance.global_op_concurrency_default_limit:
        return
    pools = {pool for pipeline in pipelines for pool in pools_of(pipeline)}
    for pool in sorted(pools - storage.get_concurrency_keys()):
        storage.initialize_concurrency_limit_to_default(pool)
