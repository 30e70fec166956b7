"""The dead-letter table's own progress: what a data table owes comes in once, and never late. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_jobs.protocol.progress import PendingDeadLetters, Progress


def is_of_another_table(there: Progress, progress: Progress) -> bool:
    """Whether the dead letters belong to an earlier data table of this name: they are ahead, unexplained.

    ``progress`` is no older than ``there``; a rollback or a new source sets it back before they follow.
    """
    if there.topic != progress.topic or there.generation > progress.generation:
        return True
    if there.generation < progress.generation or there.replay_epoch < progress.replay_epoch:
        return False
    known = there.next_offsets
    return any(offset > progress.next_offsets.get(partition, offset) for partition, offset in known.items())


def still_owed(progress: Progress, there: Progress | None) -> PendingDeadLetters | None:
    """What the data table owes its dead-letter table, whose progress is ``there``, if that has not come in.

    It stays named in the data table until the next commit to that.
    """
    pending = progress.pending_dead_letters
    return None if pending is None or (there and there.has_landed(pending.attempt)) else pending


def is_stale(there: Progress, progress: Progress, pending: PendingDeadLetters) -> bool:
    """Whether the dead letters came in long ago and the data table's ``progress`` is from before that.

    No later batch is committed before them, so the dead-letter table shows it: in offsets it has reached, or,
    for those that replace others, in the epoch that their own commit would have brought.
    """
    if there.generation != progress.generation:
        return there.generation > progress.generation
    if pending.replaces:
        return there.replay_epoch >= progress.replay_epoch
    known = there.next_offsets
    is_past = any(known.get(partition, start) > start for partition, start in pending.starts.items())
    return is_past or there.replay_epoch > progress.replay_epoch


def with_dead_letters(there: Progress, progress: Progress, pending: PendingDeadLetters) -> Progress:
    """The dead-letter table's progress once they are in; its offsets jump over batches that have none."""
    is_same = there.generation == progress.generation
    known = there.next_offsets if is_same else {}
    ends = {} if pending.replaces else pending.ends
    # After a rollback the data table stands below: what is drained again must not look committed here.
    reached = {p: min(offset, progress.next_offsets.get(p, offset)) for p, offset in (known | ends).items()}
    advanced = replace(
        progress,
        next_offsets=reached,
        earlier=there.earlier if is_same else {**there.earlier, there.generation: there.next_offsets},
        last_commits=there.last_commits,
        pending_dead_letters=None,
    )
    return advanced.recorded(pending.attempt, pending.starts, pending.ends)
