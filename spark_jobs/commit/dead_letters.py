"""The dead-letter table's own progress: what a data table owes comes in once, and never late. Pure."""

from __future__ import annotations

from dataclasses import replace

from spark_jobs.protocol.progress import PendingDeadLetters, Progress


def is_of_another_table(letters: Progress, progress: Progress) -> bool:
    """True if the dead letters belong to an earlier data table of this name: they are ahead, unexplained.

    ``progress`` is no older than ``letters``; a rollback or a new source sets it back before they follow.
    """
    if letters.topic != progress.topic or letters.generation > progress.generation:
        return True
    if letters.generation < progress.generation or letters.replay_epoch < progress.replay_epoch:
        return False
    known = letters.next_offsets
    return any(offset > progress.next_offsets.get(partition, offset) for partition, offset in known.items())


def still_owed(progress: Progress, letters: Progress | None) -> PendingDeadLetters | None:
    """Return what the data table owes its dead-letter table, whose progress is ``letters``, until it is in.

    It stays named in the data table until the next commit to that.
    """
    pending = progress.pending_dead_letters
    return None if pending is None or (letters and letters.has_landed(pending.attempt)) else pending


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
    )
    return advanced.recorded(pending.attempt, pending.ranges)
