"""What is said of a follower's state, and of what a watermark cannot be answered with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol import mends
from spark_jobs.protocol.errors import BadRecord, RetryableError, SourceChanged

if TYPE_CHECKING:
    from spark_jobs.hot.watermark import Watermark
    from spark_jobs.protocol.errors import SluiceError
    from spark_jobs.protocol.offsets import OffsetRange


def other_epoch(pipeline: PipelineConfig, at: Watermark, now: Watermark) -> SourceChanged:
    """Return the error for a watermark that means other records by now."""
    return SourceChanged(
        f"the watermark {at} is of generation {at.generation} and rollback {at.rollbacks}, the table of"
        f" {now.generation} and {now.rollbacks}",
        code="other-epoch",
        hint="The table was rolled back, retyped or partitioned otherwise, or took in another source, since:"
        f" those records can be other ones now. Ask again without --at; the watermark is {now}.",
        pipeline=pipeline.name,
        table=pipeline.table,
    )


def not_yet(pipeline: PipelineConfig, wanted: Mapping[int, int], reached: Watermark) -> RetryableError:
    """Return the error for ends (exclusive) that are not reached."""
    missing = ", ".join(f"{p}:{end - 1}" for p, end in sorted(wanted.items()) if reached.ends.get(p, 0) < end)
    return RetryableError(
        f"the records {missing} (partition:offset) cannot be read yet; the watermark is {reached}",
        code="not-yet",
        hint="Ask again: a transaction may still be open, or they were not produced here.",
        pipeline=pipeline.name,
        topic=pipeline.topic,
    )


def not_started(pipeline: PipelineConfig) -> RetryableError:
    """Return the error of a pipeline that has just begun to be followed."""
    return RetryableError(
        "the table was not seen yet",
        code="not-yet",
        hint="Ask again in a moment.",
        pipeline=pipeline.name,
        table=pipeline.table,
    )


def stopped(pipeline: PipelineConfig, error: Exception) -> RetryableError:
    """Return the error of a follower that met what nobody foresaw."""
    return RetryableError(
        f"following the topic stopped: {type(error).__name__}: {error}",
        code="following-stopped",
        hint="It begins again by itself, and the log says more. Queries of the lake alone are not concerned.",
        pipeline=pipeline.name,
        topic=pipeline.topic,
    )


def decoder_died(pipeline: PipelineConfig, records: Sequence[OffsetRange]) -> BadRecord:
    """Return the error of records over which processes died."""
    told = ", ".join(map(str, records))
    return BadRecord(
        f"two processes died while they decoded {told}: what comes from there on is not shown",
        code="poison-record",
        hint="It is once the table has passed those records. A drain decodes them one by one and names that"
        f" which kills it: {mends.command('drain', pipeline.name)}.",
        pipeline=pipeline.name,
        topic=pipeline.topic,
    )


def set_back(pipeline: PipelineConfig) -> SourceChanged:
    """Return the error of a table that the catalog shows at an earlier state than it did."""
    return SourceChanged(
        "the catalog shows an earlier state of the table than it did, and goes on to",
        code="table-rolled-back",
        hint="It was restored from a backup, or another tool set main back: ./sluice check says what to do.",
        pipeline=pipeline.name,
        table=pipeline.table,
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
