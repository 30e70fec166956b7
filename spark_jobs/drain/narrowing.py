"""Closing in on the one record that kills the task which decodes it. Pure.

Each step tries half of what is suspected, and whichever way it ends, half as much is suspected after it: a
batch of a million records is closed in on within 21 tries. A run may end before the last of them: the log has
what it tried, and the next run goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterable

from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges


def resumed(planned: OffsetRanges, tried: Iterable[OffsetRanges]) -> OffsetRanges:
    """What an earlier run had closed in on, ``planned`` when none had begun to.

    ``tried`` are the ranges of attempts that did not finish, oldest first. Backlogs grow, so one that is
    smaller than an earlier one from the same offsets is a half that was tried because the whole died, and so
    may be any of a single record. A wrong guess costs a small batch.
    """
    suspects, largest = planned, 0
    for ranges in tried:
        if not ranges or not _begins(planned, ranges):
            continue
        is_half = ranges.records < largest or ranges.records == 1
        if is_half and ranges.records < suspects.records:
            suspects = ranges
        largest = max(largest, ranges.records)
    return suspects


def first_half(suspects: OffsetRanges) -> OffsetRanges:
    """What to try next: half of the offsets, at least one, when the ranges are laid end to end."""
    room = max(1, suspects.records // 2)
    taken: list[OffsetRange] = []
    for r in suspects:
        take = min(room, len(r))
        if take:
            taken.append(OffsetRange(r.partition, r.start, r.start + take))
        room -= take
    return OffsetRanges(tuple(taken))


def rest(suspects: OffsetRanges, tried: OffsetRanges) -> OffsetRanges:
    """What is suspected once ``tried``, a first half of it, went well."""
    ends = tried.ends
    left = (OffsetRange(r.partition, ends.get(r.partition, r.start), r.end) for r in suspects)
    return OffsetRanges(tuple(r for r in left if len(r)))


def _begins(whole: OffsetRanges, part: OffsetRanges) -> bool:
    """Whether each range of the part begins where the whole's does and does not go beyond it."""
    starts, ends = whole.starts, whole.ends
    return all(starts.get(r.partition) == r.start and r.end <= ends[r.partition] for r in part)
