"""What a recovery settled: the words of its report, which commands, Dagster and the sensor show.

Made from the transaction log alone. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from spark_jobs.protocol import mends
from spark_jobs.protocol.batch import Batch, BatchCounts
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.quality.results import SuiteResult
from spark_jobs.txlog.entries import Attempt, Held, ParquetWritten


@dataclass(frozen=True, slots=True)
class AdoptedBatch:
    """A batch of an earlier run that was committed from its files."""

    batch: Batch
    counts: BatchCounts
    snapshot_id: int

    def shown(self) -> dict[str, Any]:
        """Return what screens show of it, as plain data."""
        counts = self.counts
        return {**counts.shown(self.batch), "snapshot_id": self.snapshot_id, "data_files": counts.data_files}


@dataclass(frozen=True, slots=True)
class LeftAttempt:
    """An attempt left alone: its range is done again, and it is swept once the table is past it."""

    attempt: str
    reason: str
    ranges: OffsetRanges


@dataclass(frozen=True, slots=True)
class HeldBatch:
    """A batch that failed a quality gate and waits, with its files, for an operator.

    ``suites`` are those that failed, in words for people; ``held_at_us`` microseconds since the epoch, None
    when the object that says more cannot be read.
    """

    batch: Batch
    counts: BatchCounts
    suites: str
    story: str
    held_at_us: int | None

    def shown(self) -> dict[str, Any]:
        """Return what screens show of it, as plain data."""
        return {
            **self.counts.shown(self.batch),
            "suites": self.suites,
            "story": self.story,
            "held_at_us": self.held_at_us,
        }

    @property
    def sentence(self) -> str:
        """Why later batches wait."""
        return f"{self.batch.ranges} is held: {self.story}"

    def tell(self, pipeline: str) -> str:
        """Return the sentence with the command that shows more."""
        return f"{self.sentence}; {mends.command('held list', pipeline)}"


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    """What was settled; ``marked`` and ``swept`` are attempts."""

    marked: tuple[str, ...] = ()
    adopted: tuple[AdoptedBatch, ...] = ()
    left: tuple[LeftAttempt, ...] = ()
    swept: tuple[str, ...] = ()
    swept_files: int = 0
    held: tuple[HeldBatch, ...] = ()

    def __add__(self, other: RecoveryResult) -> RecoveryResult:
        return RecoveryResult(
            self.marked + other.marked,
            self.adopted + other.adopted,
            self.left + other.left,
            self.swept + other.swept,
            self.swept_files + other.swept_files,
            self.held + other.held,
        )

    def then(self, later: RecoveryResult) -> RecoveryResult:
        """Return both recoveries of one run; what is still left is what the later one left."""
        return replace(self + later, left=later.left, held=later.held)


def held_batch(attempt: Attempt, batch: Batch) -> HeldBatch:
    """Return what the log says about a held attempt."""
    written, held = attempt.entry(ParquetWritten), attempt.entry(Held)
    suites = [SuiteResult.from_json(each) for each in held.failed] if held else []
    return HeldBatch(
        batch=batch,
        counts=written.counts if written else BatchCounts(),
        suites=held.suite if held else "?",
        story="; ".join(suite.story for suite in suites),
        held_at_us=held.held_at_us if held else None,
    )
