"""Computes replayable offsets, and splits them into batches. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from spark_jobs.drain.planning import water_fill
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges, gaps, merge
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.progress_parts import skipped_ranges
from spark_jobs.protocol.source import SourceState

_RANGE = re.compile(r"(\d+):(\d+)-(\d+)")

# All partitions of a topic share the windows. A window of one partition is one batch of some seconds, small
# enough to be done again alone; and a partition reaches the 100,000 keys that Dagster shows well only after
# 50 billion records.
WINDOW_OFFSETS = 500_000


def parse_range(text: str) -> OffsetRange:
    """Parse ``PARTITION:START-END``; the end is exclusive. Raises ``ConfigError``."""
    found = _RANGE.fullmatch(text.strip())
    if found is None or int(found[2]) >= int(found[3]):
        raise fault("replay-range-malformed", text=text)
    return OffsetRange(int(found[1]), int(found[2]), int(found[3]))


def parse_moment(text: str) -> int:
    """Return a time in milliseconds since the epoch. Raises ``ConfigError`` for another text."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise fault("time-malformed", text=text) from error
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def window_key(start: int) -> str:
    """Return the name of the window at ``start``: ``000000000000-000000500000``."""
    return f"{start:012d}-{start + WINDOW_OFFSETS:012d}"


def window_bounds(key: str) -> tuple[int, int]:
    """Return first offset and exclusive end of a window's name. Raises ``ConfigError`` for another text."""
    start, _, end = key.partition("-")
    if (
        not (start.isdigit() and end.isdigit())
        or key != window_key(int(start))
        or int(start) % WINDOW_OFFSETS
    ):
        raise fault(
            "replay-window-malformed", text=key, width=WINDOW_OFFSETS, example=window_key(WINDOW_OFFSETS)
        )
    return int(start), int(end)


def window_keys(source: SourceState, next_offsets: Mapping[int, int]) -> tuple[str, ...]:
    """Return the windows, in order, with drained offsets that Kafka still holds in any partition."""
    held = [
        (source.low[p], end) for p, end in next_offsets.items() if p in source.low and source.low[p] < end
    ]
    if not held:
        return ()
    first = min(low for low, _ in held) // WINDOW_OFFSETS * WINDOW_OFFSETS
    return tuple(window_key(start) for start in range(first, max(end for _, end in held), WINDOW_OFFSETS))


def window_ranges(key: str, source: SourceState, next_offsets: Mapping[int, int]) -> tuple[OffsetRange, ...]:
    """Return the drained part of a window that Kafka still holds; other rows do not change."""
    start, end = window_bounds(key)
    bounds = ((p, max(start, source.low.get(p, at)), min(end, at)) for p, at in sorted(next_offsets.items()))
    return tuple(OffsetRange(p, first, last) for p, first, last in bounds if first < last)


def span_ranges(
    progress: Progress, source: SourceState, starts: Mapping[int, int] | None, ends: Mapping[int, int] | None
) -> tuple[tuple[OffsetRange, ...], tuple[OffsetRange, ...]]:
    """Return what Kafka holds from ``starts`` to ``ends`` without skipped offsets, and what is lost.

    Without ``starts`` from the table's first offsets on, without ``ends`` up to the topic's end.
    """
    found: list[OffsetRange] = []
    lost: list[OffsetRange] = []
    for p, low in sorted(source.low.items()):
        first = progress.starts.get(p, 0) if starts is None else starts[p]
        end = source.end[p] if ends is None else ends[p]
        if first < min(low, end):
            lost.append(OffsetRange(p, first, min(low, end)))
        if max(first, low) < end:
            skipped = skipped_ranges(progress.skipped, progress.generation, p)
            found += gaps(OffsetRange(p, max(first, low), end), skipped)
    return tuple(found), tuple(lost)


def cut_at(
    ranges: Iterable[OffsetRange], offsets: Mapping[int, int]
) -> tuple[tuple[OffsetRange, ...], tuple[OffsetRange, ...]]:
    """Split the ranges at an offset of each partition (0 by default): before it, and from it on."""
    before, beyond = [], []
    for r in merge(ranges):
        offset = offsets.get(r.partition, 0)
        if r.start < offset:
            before.append(OffsetRange(r.partition, r.start, min(r.end, offset)))
        if r.end > offset:
            beyond.append(OffsetRange(r.partition, max(r.start, offset), r.end))
    return tuple(before), tuple(beyond)


def require_held(ranges: Iterable[OffsetRange], source: SourceState) -> None:
    """Raise ``OffsetsUnavailable`` with the remaining ranges if Kafka no longer holds all of them."""
    for r in ranges:
        low = source.low.get(r.partition, r.end)
        if r.start >= low:
            continue
        left = f"{r.partition}:{low}-{r.end}" if low < r.end else "nothing"
        raise fault(
            "replay-range-gone", low=low, wanted=r, left=left, topic=source.topic, partition=r.partition
        )


def cut_into_batches(ranges: Iterable[OffsetRange], max_records: int) -> Iterator[OffsetRanges]:
    """Return batches of at most ``max_records`` offsets, one range per partition, covering the ranges."""
    waiting = list(merge(ranges))
    while waiting:
        first = {r.partition: r for r in reversed(waiting)}
        takes = water_fill({p: len(r) for p, r in first.items()}, max(1, max_records))
        batch = {p: OffsetRange(p, r.start, r.start + takes[p]) for p, r in first.items() if takes[p]}
        yield OffsetRanges.of(batch.values())
        left = [
            OffsetRange(r.partition, batch[r.partition].end, r.end)
            if r.partition in batch and first[r.partition] is r
            else r
            for r in waiting
        ]
        waiting = [r for r in left if len(r)]
