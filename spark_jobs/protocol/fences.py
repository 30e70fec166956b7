"""What still fences a batch that has not landed: offsets, source, replay epoch, rollbacks. Pure."""

from __future__ import annotations

from spark_jobs.protocol.batch import Batch, BatchKind
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.source import has_other_ids


def has_passed(progress: Progress, batch: Batch) -> bool:
    """True if the batch's commit is refused for ever.

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
    """True if the table's next offsets are the batch's starts, of the source the batch was read from.

    Partitions unknown to the table do not object. Never for a replay, which is behind them. After a rollback
    the table comes to the same offsets again: a batch of before is refused all the same, since its files may
    have been swept meanwhile.
    """
    if batch.kind is BatchKind.REPLAY or _is_before_rollback(progress, batch):
        return False
    known = progress.next_offsets
    return _is_same_source(progress, batch) and all(
        known.get(p, start) == start for p, start in batch.ranges.starts.items()
    )


def may_replay(progress: Progress, batch: Batch) -> bool:
    """True if the table is still in the epoch the replay was planned in, and has drained its offsets."""
    is_in_epoch = _is_same_source(progress, batch) and progress.replay_epoch == batch.epoch
    return is_in_epoch and all(end <= progress.next_offsets.get(p, 0) for p, end in batch.ranges.ends.items())


def _is_same_source(progress: Progress, batch: Batch) -> bool:
    """True if offsets mean the same records to both; an id that either does not know is not compared.

    The table may have been given another topic or cluster since the plan and kept its generation.
    """
    return (progress.topic, progress.generation) == (batch.topic, batch.generation) and not has_other_ids(
        progress, batch
    )


def _is_before_rollback(progress: Progress, batch: Batch) -> bool:
    return batch.kind is BatchKind.DRAIN and batch.epoch < progress.rollbacks
