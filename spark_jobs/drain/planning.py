"""Which offsets the next batch covers, and how they are cut into tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from spark_jobs.protocol.batch import Split
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.protocol.progress import LastDrain
from spark_jobs.protocol.refusal import check_starts
from spark_jobs.protocol.source import SourceState

# Until a batch has shown what a record of the topic weighs.
FIRST_GUESS_BYTES_PER_RECORD = 512


def bytes_per_record(last_drain: LastDrain | None) -> int:
    """What a record weighed in the last batch, at least a byte; else a guess."""
    if last_drain is None or not last_drain.records:
        return FIRST_GUESS_BYTES_PER_RECORD
    return max(1, last_drain.bytes_read // last_drain.records)


# Below both, one task is done before a second one would have started.
ONE_TASK_RECORDS = 20_000
ONE_TASK_BYTES = 4 * 1024 * 1024


def plan_ranges(
    progress_next: Mapping[int, int],
    source: SourceState,
    *,
    max_records: int,
    bytes_per_record: int,
    max_bytes: int,
) -> OffsetRanges:
    """The next batch: from the table's next offsets towards the last stable offsets, within both bounds.

    Small backlogs are taken whole, the rest of the room is shared evenly by the long ones, so no partition
    waits for another. At least one offset is taken when there is any. A partition that the table does not
    know begins at its earliest offset, and is in the plan even when it is empty: once committed, retention
    cannot pass it unnoticed. Raises ``OffsetsUnavailable`` when Kafka does not hold a next offset.
    """
    starts = {p: progress_next.get(p, low) for p, low in source.low.items()}
    check_starts(starts, source)
    room = max(1, min(max_records, max_bytes // max(1, bytes_per_record)))
    takes = water_fill({p: source.end[p] - start for p, start in starts.items()}, room)
    return OffsetRanges.of(
        OffsetRange(p, starts[p], starts[p] + take)
        for p, take in takes.items()
        if take or p not in progress_next
    )


def water_fill(wanted: Mapping[int, int], room: int) -> dict[int, int]:
    """Share ``room`` so that no one could get more without somebody who has less getting less.

    What does not divide goes to the lowest partitions. The result has every key of ``wanted``.
    """
    shares: dict[int, int] = {}
    by_size = sorted(wanted.items(), key=lambda item: (item[1], -item[0]))
    for waiting, (partition, want) in zip(range(len(by_size), 0, -1), by_size, strict=True):
        shares[partition] = min(want, room // waiting)
        room -= shares[partition]
    return shares


def plan_splits(
    ranges: OffsetRanges, *, bytes_per_record: int, max_split_bytes: int, parallelism: int
) -> tuple[Split, ...]:
    """Cut a batch into tasks of equal length, each within ``max_split_bytes`` by the estimate.

    Partitions are laid end to end and cut: a long one becomes several splits, short ones share one. When
    there is work for more than one task, their number is a multiple of ``parallelism``: they all end
    together.
    """
    total = ranges.records
    if not total:
        return ()
    record_bytes = max(1, bytes_per_record)
    count = -(-total // max(1, max_split_bytes // record_bytes))
    if count > 1 or total > ONE_TASK_RECORDS or total * record_bytes > ONE_TASK_BYTES:
        waves = -(-count // max(1, parallelism))
        count = min(total, waves * max(1, parallelism))
    bounds = [total * i // count for i in range(count + 1)]
    return tuple(Split(i, tuple(_between(ranges, bounds[i], bounds[i + 1]))) for i in range(count))


def _between(ranges: OffsetRanges, first: int, end: int) -> Iterator[OffsetRange]:
    """The pieces of the ranges that lie between two positions when all are laid end to end."""
    position = 0
    for r in ranges:
        start, stop = max(first - position, 0), min(end - position, len(r))
        if start < stop:
            yield OffsetRange(r.partition, r.start + start, r.start + stop)
        position += len(r)
