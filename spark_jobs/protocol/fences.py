"""What still fences a batch that has not landed: offsets, source, replay epoch, rollbacks. Pure.

The dead-letter table, and each that rows are routed to, has a progress of its own: what a data table owes
comes in once, and never late. What is said of dead letters here holds for routed rows.
"""

from __future__ import annotations

from dataclasses import replace

from spark_jobs.protocol.batch import Batch
from spark_jobs.protocol.progress import PendingDeadLetters, Progress
from spark_jobs.protocol.source import has_other_ids


def has_passed(progress: Progress, batch: Batch) -> bool:
    """True if the batch's commit is refused for ever: by a new generation, or by the fence of its work."""
    if progress.generation != batch.generation:
        return progress.generation > batch.generation
    return batch.kind.fence.has_closed(progress, batch.epoch, batch.ranges.starts)


def stands_at_starts(progress: Progress, batch: Batch) -> bool:
    """True if the table's next offsets are the batch's starts, of the source the batch was read from.

    Never for a replay, which is behind them.
    """
    is_next = batch.kind.fence.is_next(progress, batch.epoch, batch.ranges.starts)
    return is_next and _is_same_source(progress, batch)


def is_in_epoch(progress: Progress, batch: Batch) -> bool:
    """True if the table is of the batch's source and still in the replay epoch it was planned in."""
    return _is_same_source(progress, batch) and progress.replay_epoch == batch.epoch


def may_replay(progress: Progress, batch: Batch) -> bool:
    """True if the table is still in the epoch the replay was planned in, and has drained its offsets."""
    return is_in_epoch(progress, batch) and all(
        end <= progress.next_offsets.get(p, 0) for p, end in batch.ranges.ends.items()
    )


def _is_same_source(progress: Progress, batch: Batch) -> bool:
    """True if offsets mean the same records to both; an id that either does not know is not compared.

    The table may have been given another topic or cluster since the plan and kept its generation.
    """
    return (progress.topic, progress.generation) == (batch.topic, batch.generation) and not has_other_ids(
        progress, batch
    )


def is_of_another_table(letters: Progress, progress: Progress) -> bool:
    """True if the dead letters belong to an earlier data table of this name: they are ahead, unexplained.

    ``progress`` is no older than ``letters``; a rollback or a new source sets it back before they follow.
    """
    if letters.topic != progress.topic or letters.generation > progress.generation:
        return True
    if letters.generation < progress.generation or letters.replay_epoch < progress.replay_epoch:
        return False
    if letters.replay_epoch > progress.replay_epoch:
        return True
    known = letters.next_offsets
    return any(offset > progress.next_offsets.get(partition, offset) for partition, offset in known.items())


def still_owed(progress: Progress, letters: Progress | None) -> PendingDeadLetters | None:
    """Return what the data table owes its dead-letter table, whose progress is ``letters``, until it is in.

    It stays named in the data table until the next commit to that.
    """
    pending = progress.pending_dead_letters
    return None if pending is None or (letters and letters.has_landed(pending.attempt)) else pending


def still_owed_to(progress: Progress, table: str, routed: Progress) -> PendingDeadLetters | None:
    """Return what the data table owes the one that it routes rows to, of that progress, until it is in."""
    owed = progress.owed_routes.by_table.get(table) if progress.owed_routes else None
    return None if owed is None or routed.has_landed(owed.attempt) else owed


def is_stale(letters: Progress, progress: Progress, pending: PendingDeadLetters) -> bool:
    """True if the dead letters came in long ago and the data table's ``progress`` is from before that.

    No later batch is committed before them, so the dead-letter table shows it: in offsets it has reached, or,
    for those that replace others, in the epoch that their own commit would have brought.
    """
    if letters.generation != progress.generation:
        return letters.generation > progress.generation
    if pending.replaces:
        return letters.replay_epoch >= progress.replay_epoch
    known = letters.next_offsets
    is_past = any(known.get(r.partition, r.start) > r.start for r in pending.ranges)
    return is_past or letters.replay_epoch > progress.replay_epoch


def may_come_late(letters: Progress | None, attempt: str) -> bool:
    """True if a swap that names the landed attempt's dead letters may still arrive: they must not be deleted.

    Of a debt that the data table no longer names, too: somebody dropped the table they had come into, a run
    that knew the table as it was owed them once more, and its swap compares with the table made anew.
    """
    return letters is None or not letters.has_landed(attempt)


def with_dead_letters(letters: Progress, progress: Progress, pending: PendingDeadLetters) -> Progress:
    """Return the dead-letter table's progress once they are in; it jumps over batches that have none."""
    is_same = letters.generation == progress.generation
    known = letters.next_offsets if is_same else {}
    ends = {} if pending.replaces else pending.ranges.ends
    # After a rollback the data table stands below: what is drained again must not look committed here.
    reached = {p: min(offset, progress.next_offsets.get(p, offset)) for p, offset in (known | ends).items()}
    advanced = replace(
        progress,
        next_offsets=reached,
        earlier=letters.earlier if is_same else {**letters.earlier, letters.generation: letters.next_offsets},
        last_commits=letters.last_commits,
        pending_dead_letters=None,
        routes=(),
        owed_routes=None,
        routed_from=letters.routed_from,
        last_drain_offsets=None,  # a drain without dead letters leaves none here
    )
    return advanced.recorded(pending.attempt, pending.ranges)
