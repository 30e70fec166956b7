"""Which due pipelines share a run, a round: without an instance or a clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dagster import RunRequest

    from spark_jobs.config.settings import PipelineConfig

# A run's start costs seconds of processor time, a further small drain a quarter of one.
ROUND_SIZE = 16
# What is drained in about a second; more delays the others of its round.
SMALL_RECORDS = 100_000
SMALL_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Due:
    """A pipeline that is due: the state it starts from and the request for a run of its own.

    ``waits_since`` orders those that may share a run: the time of the last commit, 0 before the first.
    """

    pipeline: str
    state: str
    request: RunRequest
    may_share: bool
    waits_since: float


def is_small(records: int, size_bytes: int, pipeline: PipelineConfig) -> bool:
    """True if a backlog is less than a full batch and is drained in about a second."""
    is_few = records < min(SMALL_RECORDS, pipeline.max_batch_records)
    return is_few and size_bytes < min(SMALL_BYTES, pipeline.max_batch_bytes)


def choose_rounds(due: Sequence[Due], *, free: int) -> list[list[Due]]:
    """Return at most ``free`` rounds of those that may share a run, as few as hold them, oldest first.

    They are dealt out evenly. Those without a place wait for the next tick.
    """
    waiting = sorted((each for each in due if each.may_share), key=lambda each: each.waits_since)
    number = max(0, min(free, -(-len(waiting) // ROUND_SIZE)))
    return [waiting[: number * ROUND_SIZE][first::number] for first in range(number)]
