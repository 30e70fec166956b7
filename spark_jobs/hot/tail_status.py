"""The states of a follower, and the errors raised when a watermark cannot be served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.hot.watermark import Watermark
from spark_jobs.protocol.errors import SluiceError, fault

PATIENCE_SECONDS = 10.0


def required_ends(after: Mapping[int, int] | None, at: Watermark | None) -> Mapping[int, int]:
    """Return the ends (exclusive) that include the offsets ``after``, or those of the watermark ``at``."""
    return at.ends if at else {partition: offset + 1 for partition, offset in (after or {}).items()}


def other_epoch(pipeline: PipelineConfig, at: Watermark, now: Watermark) -> SluiceError:
    """Return the error for a watermark of an earlier epoch, whose offsets mean other records now."""
    return fault(
        "other-epoch",
        at=at,
        of_generation=at.generation,
        of_rollbacks=at.rollbacks,
        generation=now.generation,
        rollbacks=now.rollbacks,
        watermark=now,
        **pipeline.where,
    )


def not_yet(pipeline: PipelineConfig, wanted: Mapping[int, int], reached: Watermark) -> SluiceError:
    """Return the error for ends (exclusive) that were not reached in time."""
    missing = ", ".join(f"{p}:{end - 1}" for p, end in sorted(wanted.items()) if reached.ends.get(p, 0) < end)
    return fault("not-yet", missing=missing, reached=reached, pipeline=pipeline.name, topic=pipeline.topic)


def stopped(pipeline: PipelineConfig, error: Exception) -> SluiceError:
    """Return the error of a follower that failed unexpectedly."""
    return fault(
        "following-stopped",
        type=type(error).__name__,
        why=error,
        pipeline=pipeline.name,
        topic=pipeline.topic,
    )


# The state of each pipeline in a process that follows it.


class State(StrEnum):
    """The state of a pipeline. ``starting`` and ``failed`` give no answers, ``live`` gives fresh ones."""

    STARTING = "starting"  # the table has not been loaded yet
    CATCHING_UP = "catching-up"  # Kafka has more records than answers
    LIVE = "live"  # answers have all records that Kafka had a moment ago
    FULL = "full"  # memory is full of records that no drain has committed; nothing more is read
    BLOCKED = "blocked"  # a partition cannot advance, with a reason; the others do
    FAILED = "failed"  # no answer would be exact, for a reason


@dataclass(frozen=True, slots=True)
class TailStatus:
    """The status of one pipeline at one moment.

    ``age_ms`` is the time since answers last included everything in Kafka; ``is_ready`` stays true after the
    first ``live``.
    """

    pipeline: str
    state: State
    watermark: Watermark | None = None
    hot_rows: int = 0
    size_bytes: int = 0
    age_ms: int | None = None
    is_ready: bool = False
    reason: SluiceError | None = None
