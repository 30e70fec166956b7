"""Watches tables catch up with their topics while somebody else drains them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from spark_jobs.config.settings import SluiceConfig
from spark_jobs.monitoring.survey import Problem, Surveyed, Surveyor
from spark_jobs.protocol.errors import fault

POLL_SECONDS = 0.5
SAY_EVERY_SECONDS = 10.0
RUN_END_SECONDS = 30.0
QUIET_SECONDS = 300.0  # a cold first run takes half a minute; two minutes were seen on a busy small machine


def wait_until_drained(
    config: SluiceConfig, check_servers: Callable[[], None], say: Callable[[str], None]
) -> None:
    """Return once every pipeline's table has reached its topic's last stable offsets.

    Raises ``RetryableError`` (``demo-stands-still``) when no table has moved for five minutes, or what makes
    draining impossible as soon as it is seen.
    """
    surveyor = Surveyor(config)
    began = last_moved = time.monotonic()
    last_said, before = 0.0, ""
    while True:
        check_servers()
        survey = surveyor.survey()
        for seen in survey:
            if isinstance(seen, Problem) and not seen.error.is_retryable:
                raise seen.error
        now, words = time.monotonic(), " · ".join(_words(seen) for seen in survey)
        is_done = all(isinstance(seen, Surveyed) and seen.table and not _lag(seen) for seen in survey)
        words_moved = words != before
        if words_moved:
            last_moved, before = now, words
        if is_done or words_moved or now - last_said >= SAY_EVERY_SECONDS:
            say(f"  {now - began:5.1f} s  {words}")
            last_said = now
        if is_done:
            return
        if now - last_moved > QUIET_SECONDS:
            raise fault("demo-stands-still", seconds=QUIET_SECONDS, words=words, folder=config.home)
        time.sleep(POLL_SECONDS)


def wait_for_runs(home: Path) -> None:
    """Let runs that have committed also tell Dagster what they did, for a moment."""
    from dagster import DagsterInstance, DagsterRunStatus, RunsFilter

    under_way = RunsFilter(statuses=[DagsterRunStatus.STARTING, DagsterRunStatus.STARTED])
    deadline = time.monotonic() + RUN_END_SECONDS
    with DagsterInstance.from_config(str(home / "dagster")) as instance:
        while instance.get_runs_count(under_way) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)


def _words(seen: Surveyed | Problem) -> str:
    if isinstance(seen, Problem):
        return f"{seen.pipeline.name} {seen.error.code}"
    there = sum(seen.source.end.values()) - sum(seen.source.low.values())
    return f"{seen.pipeline.name} {there - _lag(seen):,} of {there:,}"


def _lag(seen: Surveyed) -> int:
    return seen.source.lag(seen.table.progress.next_offsets if seen.table else {})
