"""What is said of a follower's state, and of what a watermark cannot be answered with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.hot.watermark import Watermark
from spark_jobs.protocol.errors import SluiceError, fault

PATIENCE_SECONDS = 10.0


def wanted_ends(after: Mapping[int, int] | None, at: Watermark | None) -> Mapping[int, int]:
    """Return the ends (exclusive) of who waits for these offsets, or asks for an earlier answer's records."""
    return at.ends if at else {partition: offset + 1 for partition, offset in (after or {}).items()}


def other_epoch(pipeline: PipelineConfig, at: Watermark, now: Watermark) -> SluiceError:
    """Return the error for a watermark that means other records by now."""
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
    """Return the error for ends (exclusive) that are not reached."""
    missing = ", ".join(f"{p}:{end - 1}" for p, end in sorted(wanted.items()) if reached.ends.get(p, 0) < end)
    return fault("not-yet", missing=missing, reached=reached, pipeline=pipeline.name, topic=pipeline.topic)


def stopped(pipeline: PipelineConfig, error: Exception) -> SluiceError:
    """Return the error of a follower that met what nobody foresaw."""
    return fault(
        "following-stopped",
        type=type(error).__name__,
        why=error,
        pipeline=pipeline.name,
        topic=pipeline.topic,
    )


# What a process that follows pipelines says of each.


class State(StrEnum):
    """How far a pipeline is. All but the first and the last answer, exactly; ``live`` answers are fresh."""

    STARTING = "starting"  # the table was not seen yet
    CATCHING_UP = "catching-up"  # Kafka has more than is shown
    LIVE = "live"  # all that Kafka had a moment ago is shown
    FULL = "full"  # what is not drained takes all memory: nothing new comes in until it is
    BLOCKED = "blocked"  # a partition's end stands, for a reason; the others go on
    FAILED = "failed"  # no answer would be exact, for a reason


@dataclass(frozen=True, slots=True)
class TailStatus:
    """One pipeline at one moment.

    ``age_ms`` is how long ago Kafka had no more than is shown; ``is_ready`` stays true once it was live.
    """

    pipeline: str
    state: State
    watermark: Watermark | None = None
    hot_rows: int = 0
    size_bytes: int = 0
    age_ms: int | None = None
    is_ready: bool = False
    reason: SluiceError | None = None
