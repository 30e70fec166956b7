"""Chunks of messages in columns, bounded in memory, and the position within a range."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, pairwise
from typing import Any, cast

import numpy as np
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message

from spark_jobs.protocol.errors import SluiceError, fault
from spark_jobs.protocol.offsets import OffsetRange

Headers = list[tuple[str, bytes | None]]
offset_of = cast("Callable[[Message], int]", Message.offset)  # None only for messages not read from Kafka
_headers = cast("Callable[[Message], Headers | None]", Message.headers)  # as a consumer gives them
# One call's worth: large enough that the call costs nothing, small enough to hear of large messages soon.
MAX_SLICE_RECORDS = 1_000
FIRST_SLICE_RECORDS = 100


@dataclass(slots=True)
class Chunk:
    """Records of one partition in offset order, one list per column, all of one length.

    ``timestamps_ms`` since the epoch, -1 where the record has none. ``headers`` is None for a record without;
    names may repeat and values may be None. ``timestamp_types`` are librdkafka's, a producer's where nothing
    else is said. ``record_bytes`` counts values, keys and headers. Short ranges
    share a chunk: ``runs`` are then its partitions, one after the other, with how many records each has.
    """

    partition: int
    offsets: list[int] = field(default_factory=list)
    timestamps_ms: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[Headers | None] = field(default_factory=list)
    timestamp_types: list[int] = field(default_factory=list)
    runs: tuple[tuple[int, int], ...] = field(default=(), kw_only=True)
    record_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        headers = (header for each in filter(None, self.headers) for header in each)
        self.record_bytes = sum(len(name) + len(value or b"") for name, value in headers)
        self.timestamp_types = self.timestamp_types or [TIMESTAMP_CREATE_TIME] * len(self.offsets)
        for column in (self.values, self.keys):
            self.record_bytes += sum(map(len, filter(None, column)))

    @property
    def columns(self) -> tuple[list[Any], ...]:
        """Return the columns in their declared order."""
        return (
            self.offsets,
            self.timestamps_ms,
            self.keys,
            self.values,
            self.headers,
            self.timestamp_types,
        )

    @property
    def counts(self) -> dict[int, int]:
        """Return the number of records by partition, in order."""
        return dict(self.runs) if self.runs else {self.partition: len(self.offsets)}

    @property
    def partitions(self) -> np.ndarray:
        """Return the partition of each record."""
        counts = self.counts
        return np.repeat(np.fromiter(counts, np.int32), [*counts.values()])

    def parts(self) -> Iterator[Chunk]:
        """Return the records in chunks of one partition each."""
        first = 0
        for partition, count in self.runs:
            yield Chunk(partition, *(column[first : first + count] for column in self.columns))
            first += count
        if not self.runs:
            yield self

    def without_gaps(self) -> Iterator[Chunk]:
        """Return a single-partition chunk split where offsets are not contiguous."""
        cuts = (np.flatnonzero(np.diff(self.offsets) != 1) + 1).tolist()
        if not cuts:
            yield self
            return
        for start, end in pairwise([0, *cuts, len(self.offsets)]):
            yield Chunk(self.partition, *(column[start:end] for column in self.columns))

    def take(self, indices: Sequence[int]) -> Chunk:
        """Return a chunk of the records at these ascending positions."""
        taken = Chunk(self.partition, *([column[i] for i in indices] for column in self.columns))
        if self.runs:
            of_each = self.partitions
            runs = groupby(of_each[list(indices)].tolist())
            taken.runs = tuple((partition, len(list(run))) for partition, run in runs)
        return taken

    def extend(self, other: Chunk) -> None:
        """Append a chunk that follows in the same partition."""
        for column, more in zip(self.columns, other.columns, strict=True):
            column.extend(more)
        self.record_bytes += other.record_bytes


def chunk_of(partition: int, messages: list[Message], offsets: list[int]) -> Chunk:
    """Return a chunk of messages whose offsets the caller has."""
    types, timestamps_ms = zip(*map(Message.timestamp, messages), strict=True) if messages else ((), ())
    return Chunk(
        partition,
        offsets,
        list(timestamps_ms),
        list(map(Message.key, messages)),
        list(map(Message.value, messages)),
        list(map(_headers, messages)),
        list(types),
    )


def by_partition(messages: Iterable[Message]) -> dict[int, list[Message]]:
    """Return messages by partition in order, including events."""
    found: defaultdict[int, list[Message]] = defaultdict(list)
    for message in messages:
        found[cast("int", message.partition())].append(message)
    return found


def joined(chunks: Sequence[Chunk], max_records: int) -> Iterator[Chunk]:
    """Return the records of single-partition chunks in few chunks of at most that many records."""
    held: list[Chunk] = []
    for chunk in chunks:
        if held and sum(len(each.offsets) for each in held) + len(chunk.offsets) > max_records:
            yield _join(held)
            held = []
        held.append(chunk)
    if held:
        yield _join(held)


def _join(chunks: Sequence[Chunk]) -> Chunk:
    if len(chunks) == 1:
        return chunks[0]
    columns = (list(chain.from_iterable(each)) for each in zip(*(c.columns for c in chunks), strict=True))
    runs = tuple((chunk.partition, len(chunk.offsets)) for chunk in chunks)
    return Chunk(chunks[0].partition, *columns, runs=runs)


class ChunkBuilder:
    """Builder that cuts one partition's messages into chunks within both bounds (a larger message alone)."""

    def __init__(self, partition: int, *, max_records: int, max_bytes: int) -> None:
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._bytes_per_record = max(1, max_bytes // FIRST_SLICE_RECORDS)
        self._chunk = Chunk(partition)

    @property
    def room(self) -> int:
        """Return the number of messages to request next, from the size of the last ones."""
        by_bytes = (self._max_bytes - self._chunk.record_bytes) // self._bytes_per_record
        return max(1, min(self._max_records - len(self._chunk.offsets), by_bytes, MAX_SLICE_RECORDS))

    def add(self, messages: list[Message], offsets: list[int]) -> Iterator[Chunk]:
        """Add messages and yield the chunks they fill."""
        new = chunk_of(self._chunk.partition, messages, offsets)
        self._bytes_per_record = max(1, new.record_bytes // len(messages))
        if self._fits(new):
            self._chunk.extend(new)
        else:
            for index in range(len(messages)):
                one = new.take([index])
                if not self._fits(one):
                    yield from self.finish()
                self._chunk.extend(one)
        if self._chunk.record_bytes >= self._max_bytes or len(self._chunk.offsets) >= self._max_records:
            yield from self.finish()

    def finish(self) -> Iterator[Chunk]:
        """Yield the remaining records, if any."""
        if self._chunk.offsets:
            full, self._chunk = self._chunk, Chunk(self._chunk.partition)
            yield full

    def _fits(self, new: Chunk) -> bool:
        return (
            self._chunk.record_bytes + new.record_bytes <= self._max_bytes
            and len(self._chunk.offsets) + len(new.offsets) <= self._max_records
        )


# How far a range has been read, when it is done, and with which error it ends when Kafka gives no more.


# After a leader moved, the new one may for a moment not show all that the old one did.
SHORT_LOG_GRACE_SECONDS = 5.0
QUIET_SECONDS = 3.0


class Cursor:
    """Position within a range; ``first`` is the first record's offset, None before there is one.

    ``leader_epoch`` is the latest that a record below the range can have, None when nobody knows.
    ``log_end`` is where the log was last seen to end while the range goes on, else None; past ``deadline``
    nothing has arrived for so long that something is wrong.
    """

    def __init__(
        self,
        wanted: OffsetRange,
        timeout_seconds: float,
        clock: Callable[[], float],
        leader_epoch: int | None = None,
    ) -> None:
        self.wanted = wanted
        self.leader_epoch = leader_epoch
        self.position = wanted.start
        self.first: int | None = None
        self.log_end: int | None = None
        self.is_done = False
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self.deadline = clock() + timeout_seconds
        self._quiet_at = clock() + QUIET_SECONDS

    @property
    def is_overdue(self) -> bool:
        """True if nothing has arrived for longer than the deadline."""
        return self._clock() > self.deadline

    def is_newly_quiet(self) -> bool:
        """True once per silence, when it is time to look for its cause."""
        is_quiet = self._clock() > self._quiet_at
        if is_quiet:
            self._quiet_at = math.inf
        return is_quiet

    def advance(self, offsets: list[int]) -> int:
        """Move past ascending offsets; return how many are in the range.

        An offset at or past the end shows that everything below the end was delivered.
        """
        kept = len(offsets) if offsets[-1] < self.wanted.end else bisect_left(offsets, self.wanted.end)
        if kept and self.first is None:
            self.first = offsets[0]
        self.position = offsets[-1] + 1
        self.log_end = None
        self.is_done = self.is_done or self.position >= self.wanted.end
        self.deadline = self._clock() + self._timeout_seconds
        self._quiet_at = self._clock() + QUIET_SECONDS
        return kept

    def saw_log_end(self, offset: int) -> None:
        """Note that the log ends here: at or after the range's end, the range is complete.

        Below it, more may come only if a leader is just catching up: wait a little, not the whole timeout.
        """
        if offset >= self.wanted.end:
            self.is_done = True
            return
        self.log_end = offset
        self.deadline = min(self.deadline, self._clock() + SHORT_LOG_GRACE_SECONDS)


# What the read of a range ends with when Kafka no longer has it, or does not give it.


def retention_passed(topic: str, cursor: Cursor, offset: int, low: int) -> SluiceError:
    """Return the error for an ``offset`` below Kafka's first offset ``low``."""
    return fault("retention-passed.during-read", start=offset, last=low - 1, topic=topic, range=cursor.wanted)


def log_truncated(topic: str, cursor: Cursor, log_end: int) -> SluiceError:
    """Return the error for a log that ends below the range."""
    return fault("log-truncated.during-read", log_end=log_end, topic=topic, range=cursor.wanted)
