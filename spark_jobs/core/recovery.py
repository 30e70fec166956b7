"""What to do with an attempt that did not finish. Pure: the facts come in, one decision goes out.

Two rules keep the table whole whatever the dead, the paused and the late do, and only together:
files are committed only from the offsets the table stands at (the swap compares), and a file is deleted only
when the table's offsets have passed the attempt's starts and nothing names the file. For a replay the table's
epoch stands for its offsets. "Not landed" alone is
never a reason to delete: the commit may be on its way.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from spark_jobs.core.batch import BatchKind, unbalanced
from spark_jobs.core.txlog import FlushComplete, IcebergSnapshotCreated, ParquetWritten, Published

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_jobs.core.batch import Batch
    from spark_jobs.core.progress import Progress
    from spark_jobs.core.txlog import Attempt


# ParquetWritten's summary says how the batch did at its gates: one object that is there or not, so that
# nobody can see the files of a batch without seeing that they must not be committed.
GATE = "sluice.gate"
GATE_HELD = "held"
GATE_PASSED = "passed"


class Decision(StrEnum):
    """What recovery does with one attempt."""

    MARK = "mark"  # its commit is in the table: write the phases it did not get to write
    ADOPT = "adopt"  # its files are complete and the table still stands at its starts: commit them
    LEAVE = "leave"  # it may still land and cannot be adopted: do the range again, touch nothing
    HOLD = "hold"  # it failed a quality gate: nobody commits or deletes its files but by an operator's word
    SWEEP = "sweep"  # it can never land: delete those of its files that nothing names


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision and the reason for it, in words for people."""

    decision: Decision
    reason: str


def has_passed(progress: Progress, batch: Batch) -> bool:
    """Whether the batch's commit is refused for ever.

    A drain's when the table moved beyond one of its starts, a replay's when the table's epoch did: its
    offsets are behind the table's from the beginning.
    """
    if progress.generation != batch.generation:
        return progress.generation > batch.generation
    if batch.kind is BatchKind.REPLAY:
        return progress.replay_epoch > batch.epoch
    if _is_before_rollback(progress, batch):
        return True
    known = progress.next_offsets
    return any(known.get(partition, start) > start for partition, start in batch.ranges.starts.items())


def stands_at_starts(progress: Progress, batch: Batch) -> bool:
    """Whether the table's next offsets are the batch's starts; partitions unknown to it do not object.

    Never for a replay, which is behind them. After a rollback the table comes to the same offsets again: a
    batch of before is refused all the same, since its files may have been swept meanwhile.
    """
    if batch.kind is BatchKind.REPLAY or _is_before_rollback(progress, batch):
        return False
    known = progress.next_offsets
    is_same_source = (progress.topic, progress.generation) == (batch.topic, batch.generation)
    return is_same_source and all(known.get(p, start) == start for p, start in batch.ranges.starts.items())


def may_replay(progress: Progress, batch: Batch) -> bool:
    """Whether the table is still in the epoch the replay was planned in, and has drained its offsets."""
    planned_in = (batch.topic, batch.generation, batch.epoch)
    is_in_epoch = (progress.topic, progress.generation, progress.replay_epoch) == planned_in
    return is_in_epoch and all(end <= progress.next_offsets.get(p, 0) for p, end in batch.ranges.ends.items())


def _is_before_rollback(progress: Progress, batch: Batch) -> bool:
    return batch.kind is BatchKind.DRAIN and batch.epoch < progress.rollbacks


def decide(
    attempt: Attempt,
    progress: Progress,
    *,
    has_all_files: Callable[[], bool],
    names_its_files: Callable[[], bool],
) -> Verdict:
    """Decide about one unfinished attempt of the table whose ``progress`` was just loaded.

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
        return Verdict(Decision.LEAVE, "the table does not stand at its starts")
    return _adopt_or_leave(attempt, batch, has_all_files)


def is_held(attempt: Attempt) -> bool:
    """Whether its files failed a quality gate and no operator has published them."""
    written = attempt.entry(ParquetWritten)
    is_marked = written is not None and written.summary.get(GATE) == GATE_HELD
    return is_marked and attempt.entry(Published) is None


def is_waiting(attempt: Attempt, progress: Progress) -> bool:
    """Whether a held attempt still stands where the table's next batch begins."""
    batch = attempt.batch
    return is_held(attempt) and batch is not None and stands_at_starts(progress, batch)


def unnamed_files(found: Iterable[str], *, named: frozenset[str], owed: frozenset[str]) -> tuple[str, ...]:
    """The files a sweep may delete: found under the attempt's prefix, in no snapshot, owed to no table.

    All are normalised paths; ``named`` must come from metadata loaded after the offsets had passed.
    """
    return tuple(path for path in found if path not in named and path not in owed)


def _is_known_landed(attempt: Attempt, progress: Progress) -> bool:
    """By the table's word, or by the log's as far as the table's offsets do not contradict it.

    A table that was restored from a backup has not landed what its log remembers.
    """
    is_logged = attempt.entry(IcebergSnapshotCreated) or attempt.entry(FlushComplete)
    is_past = attempt.batch is not None and has_passed(progress, attempt.batch)
    return progress.has_landed(attempt.uuid) or (is_logged is not None and is_past)


def _mark_or_sweep(attempt: Attempt, names_its_files: Callable[[], bool]) -> Verdict:
    written = attempt.entry(ParquetWritten)
    if written is not None and written.data_files and names_its_files():
        return Verdict(Decision.MARK, "the table is past its range and names its files")
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
    return Verdict(Decision.ADOPT, "its files are complete and the table stands at its starts")
