"""Plans the offsets of the next batch, and splits them into tasks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from spark_jobs.config.quantities import Start, StartKind
from spark_jobs.protocol.batch import Split
from spark_jobs.protocol.errors import fault
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.protocol.progress import LastDrain
from spark_jobs.protocol.source import SourceState, check_starts

# Until a batch has shown what a record of the topic weighs.
FIRST_GUESS_BYTES_PER_RECORD = 512
MAX_SPLIT_BYTES = 256 * 1024 * 1024


def bytes_per_record(last_drain: LastDrain | None) -> int:
    """Return the bytes per record of the last batch, at least one; else an estimate."""
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
    """Return the next batch: from the table's next offsets to the last stable offsets, within bounds.

    Small backlogs are taken whole, the rest of the room is shared evenly by the long ones, so no partition
    waits for another. At least one offset is taken when there is any. A partition that the table does not
    know is in the plan even when it is empty: its position is recorded. Raises ``OffsetsUnavailable`` when
    Kafka does not hold a next offset.
    """
    starts = source.positions(progress_next)
    check_starts(starts, source)
    room = max(1, min(max_records, max_bytes // max(1, bytes_per_record)))
    takes = water_fill({p: source.end[p] - start for p, start in starts.items()}, room)
    return OffsetRanges.of(
        OffsetRange(p, starts[p], starts[p] + take)
        for p, take in takes.items()
        if take or p not in progress_next
    )


def water_fill(wanted: Mapping[int, int], room: int) -> dict[int, int]:
    """Share ``room`` fairly (max-min): no share can grow without shrinking a smaller one.

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
    """Split a batch into tasks of equal length, each within ``max_split_bytes`` by the estimate.

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
    """Return the parts of the ranges between two positions of their concatenation."""
    position = 0
    for r in ranges:
        start, stop = max(first - position, 0), min(end - position, len(r))
        if start < stop:
            yield OffsetRange(r.partition, r.start + start, r.start + stop)
        position += len(r)


def resumed(planned: OffsetRanges, tried: Iterable[OffsetRanges]) -> OffsetRanges:
    """Return the ranges that an earlier run narrowed down to, or ``planned`` if none did.

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
    """Return the next ranges to try: half of the offsets, at least one, of the concatenation."""
    room = max(1, suspects.records // 2)
    taken: list[OffsetRange] = []
    for r in suspects:
        take = min(room, len(r))
        if take:
            taken.append(OffsetRange(r.partition, r.start, r.start + take))
        room -= take
    return OffsetRanges(tuple(taken))


def rest(suspects: OffsetRanges, tried: OffsetRanges) -> OffsetRanges:
    """Return the remaining suspects after ``tried``, a first half, succeeded."""
    ends = tried.ends
    left = (OffsetRange(r.partition, ends.get(r.partition, r.start), r.end) for r in suspects)
    return OffsetRanges(tuple(r for r in left if len(r)))


def _begins(whole: OffsetRanges, part: OffsetRanges) -> bool:
    """True if each range of the part begins as the whole's does and is within it."""
    starts, ends = whole.starts, whole.ends
    return all(starts.get(r.partition) == r.start and r.end <= ends[r.partition] for r in part)


def resolve_start(
    start: Start, source: SourceState, offsets_for_times: Callable[[int], Mapping[int, int]]
) -> dict[int, int]:
    """Return the first offset of every current partition.

    ``offsets_for_times`` is asked only for a time: milliseconds since the epoch to the first offset at or
    after it by partition; a partition it leaves out has none and begins at its end. A partition that
    configured offsets leave out begins at its earliest offset. Raises ``ConfigError`` for an offset or a
    partition that Kafka does not have.
    """
    if start.kind is StartKind.EARLIEST:
        return dict(source.low)
    if start.kind is StartKind.LATEST:
        return dict(source.end)
    if start.kind is StartKind.OFFSETS:
        _check_offsets(start.offsets, source)
        return {**source.low, **start.offsets}
    if start.timestamp_ms is None:
        raise ValueError("a start of kind TIMESTAMP without its timestamp_ms")
    found = offsets_for_times(start.timestamp_ms)
    # A record beyond the last stable offset may carry the time: begin no later than what can be read now.
    return {p: max(source.low[p], min(found.get(p, end), end)) for p, end in source.end.items()}


def _check_offsets(offsets: Mapping[int, int], source: SourceState) -> None:
    for partition, offset in sorted(offsets.items()):
        if partition not in source.end:
            raise fault(
                "start-outside-topic.partition",
                number=partition,
                found=sorted(source.end),
                topic=source.topic,
            )
        low, end = source.low[partition], source.end[partition]
        if not low <= offset <= end:
            raise fault(
                "start-outside-topic.offset",
                start=offset,
                low=low,
                end=end,
                topic=source.topic,
                partition=partition,
            )
