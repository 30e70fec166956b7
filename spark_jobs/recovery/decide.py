"""Decision about an unfinished attempt, from plain facts. Pure.

Two rules keep the table whole whatever the dead, the paused and the late do, and only together:
files are committed only from the offsets the table stands at (the swap compares), and a file is deleted only
when the table's offsets have passed the attempt's starts and nothing names the file. For a replay the table's
epoch stands for its offsets. "Not landed" alone is
never a reason to delete: the commit may be on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

from spark_jobs.protocol import mends
from spark_jobs.protocol.batch import Batch, BatchCounts, unbalanced
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import has_passed, stands_at_starts
from spark_jobs.protocol.work import Settler
from spark_jobs.quality.results import SuiteResult
from spark_jobs.txlog.entries import (
    Attempt,
    FlushComplete,
    Held,
    IcebergSnapshotCreated,
    ParquetWritten,
    is_held,
)


class Decision(StrEnum):
    """Decision of recovery about one attempt."""

    MARK = "mark"  # its commit is in the table: write the phases it did not get to write
    ADOPT = "adopt"  # its files are complete and the table still stands at its starts: commit them
    LEAVE = "leave"  # it may still land and cannot be adopted: do the range again, touch nothing
    HOLD = "hold"  # it failed a quality gate: nobody commits or deletes its files but by an operator's word
    SWEEP = "sweep"  # it can never land: delete those of its files that nothing names


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision and its reason, in words for people."""

    decision: Decision
    reason: str


def attempts_of(settler: Settler, attempts: Iterable[Attempt]) -> list[Attempt]:
    """Return the unfinished attempts for this settler; drains also settle unreadable ones.

    A replay may be alive beside a drain: the next replay settles it, and no drain waits for it.
    """
    by_whom = ((Settler.DRAIN if a.batch is None else a.batch.kind.settler, a) for a in attempts)
    return [attempt for whose, attempt in by_whom if whose is settler]


def decide(
    attempt: Attempt,
    progress: Progress,
    *,
    has_all_files: Callable[[], bool],
    names_its_files: Callable[[], bool],
) -> Verdict:
    """Decide about one unfinished attempt of the table with the just loaded ``progress``.

    ``has_all_files``: every file that ParquetWritten lists is in storage with its size.
    ``names_its_files``: a snapshot of the same metadata as ``progress`` names one of them.
    Each is asked only when it matters.
    """
    batch = attempt.batch
    if batch is None:
        return Verdict(Decision.LEAVE, "none of its log objects can be read")
    if _is_known_landed(attempt, progress):
        return Verdict(Decision.MARK, "its commit is in the table")
    if not batch.kind.writes_files:
        return Verdict(Decision.SWEEP, "it has no files and its commit is not in the table")
    if has_passed(progress, batch):
        return _mark_or_sweep(attempt, names_its_files)
    if not stands_at_starts(progress, batch):
        return Verdict(Decision.LEAVE, "the table is not at its start offsets")
    return _adopt_or_leave(attempt, batch, has_all_files)


def _is_known_landed(attempt: Attempt, progress: Progress) -> bool:
    """True if it has landed by the table's record, or by the log's where the table's offsets agree.

    A table that was restored from a backup has not landed what its log remembers.
    """
    is_logged = attempt.entry(IcebergSnapshotCreated) or attempt.entry(FlushComplete)
    is_past = attempt.batch is not None and has_passed(progress, attempt.batch)
    return progress.has_landed(attempt.uuid) or (is_logged is not None and is_past)


def _mark_or_sweep(attempt: Attempt, names_its_files: Callable[[], bool]) -> Verdict:
    if attempt.entry(ParquetWritten) is not None and names_its_files():
        return Verdict(Decision.MARK, "the table is past its range and has its commit")
    return Verdict(Decision.SWEEP, "the table is past its range without it")


def _adopt_or_leave(attempt: Attempt, batch: Batch, has_all_files: Callable[[], bool]) -> Verdict:
    written = attempt.entry(ParquetWritten)
    if written is None:
        return Verdict(Decision.LEAVE, "it did not finish writing")
    if unbalanced(batch.ranges, written.balances):
        return Verdict(Decision.LEAVE, "its offsets do not balance")
    if not has_all_files():
        return Verdict(Decision.LEAVE, "some of its files are missing or cut short")
    if is_held(attempt):
        return Verdict(Decision.HOLD, "it failed a quality gate and waits for an operator")
    return Verdict(Decision.ADOPT, "its files are complete and the table is at its start offsets")


# What a recovery settled: the words of its report, which commands, Dagster and the sensor show.
#
# Made from the transaction log alone.


@dataclass(frozen=True, slots=True)
class AdoptedBatch:
    """A batch of an earlier run, committed from its files."""

    batch: Batch
    counts: BatchCounts
    snapshot_id: int

    def shown(self) -> dict[str, Any]:
        """Return what screens show for it, as plain data."""
        counts = self.counts
        return {**counts.shown(self.batch), "snapshot_id": self.snapshot_id, "data_files": counts.data_files}


@dataclass(frozen=True, slots=True)
class LeftAttempt:
    """An attempt left alone: its range is done again, and it is swept once the table has passed it."""

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
        """Return what screens show for it, as plain data."""
        return {
            **self.counts.shown(self.batch),
            "suites": self.suites,
            "story": self.story,
            "held_at_us": self.held_at_us,
        }

    @property
    def sentence(self) -> str:
        """Reason why later batches wait."""
        return f"{self.batch.ranges} is held: {self.story}"

    def tell(self, pipeline: str) -> str:
        """Return the sentence with the command that shows more."""
        return f"{self.sentence}; {mends.command('held list', pipeline)}"


@dataclass(frozen=True, slots=True)
class RecoveryResult:
    """Result of a recovery; ``marked`` and ``swept`` are attempts."""

    marked: tuple[str, ...] = ()
    adopted: tuple[AdoptedBatch, ...] = ()
    left: tuple[LeftAttempt, ...] = ()
    swept: tuple[str, ...] = ()
    swept_files: int = 0
    held: tuple[HeldBatch, ...] = ()

    def __add__(self, other: RecoveryResult) -> RecoveryResult:
        names = (each.name for each in fields(self))
        return RecoveryResult(*(getattr(self, name) + getattr(other, name) for name in names))

    def then(self, later: RecoveryResult) -> RecoveryResult:
        """Return the results of two recoveries of one run; what is left is that of the later one."""
        return replace(self + later, left=later.left, held=later.held)


def held_batch(attempt: Attempt, batch: Batch) -> HeldBatch:
    """Return the held batch from the log."""
    written, held = attempt.entry(ParquetWritten), attempt.entry(Held)
    suites = [SuiteResult.from_json(each) for each in held.failed] if held else []
    return HeldBatch(
        batch=batch,
        counts=written.counts if written else BatchCounts(),
        suites=held.suite if held else "?",
        story="; ".join(suite.story for suite in suites),
        held_at_us=held.held_at_us if held else None,
    )
