"""Where the tasks of a batch read, Kafka or dead letters in its place, and what they count. No Spark.

The dead-letter table keeps what a record was: key, value and headers as they came, its coordinates, its time.
"""

from __future__ import annotations

import resource
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.kafka.chunks import Chunk
from spark_jobs.kafka.reader import RangeReader, bundles
from spark_jobs.lake.coordinates import Coordinates
from spark_jobs.lake.kept_letters import letters_at
from spark_jobs.protocol.batch import Balance, Split, WrittenFile
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.schema.metadata_columns import (
    FAILURES,
    FIRST_FAILED_AT,
    INGESTED_AT,
    OFFSET,
    PARTITION,
    TIMESTAMP,
)
from spark_jobs.spark.outcomes import Written
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask


class Tally:
    """What a split's task counts while it works."""

    def __init__(self) -> None:
        self._balances: dict[int, Balance] = defaultdict(Balance)
        self._cpu_us: Counter[str] = Counter()
        self._threads_began_ns = _threads_ns()
        self._max_timestamp_ms: dict[int, int] = {}
        self._bytes_read = 0
        self.kafka: dict[str, int] = {}
        self.ignored: dict[str, int] = {}
        self.dead_letter_phases: Counter[str] = Counter()
        self.filtered_reasons: Counter[str] = Counter()
        self.unlisted: dict[str, int] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Charge this thread's CPU time to a step; librdkafka's beside it is charged to ``threads``."""
        started = time.thread_time_ns()
        try:
            yield
        finally:
            self._cpu_us[name] += (time.thread_time_ns() - started) // 1000

    def follow(self, chunk: Chunk, position: int) -> int:
        """Count the gaps before and inside a partition's chunk; return the position after it."""
        last = chunk.offsets[-1]
        self.skip(chunk.partition, last + 1 - position - len(chunk.offsets))
        self.note(chunk)
        return last + 1

    def note(self, chunk: Chunk) -> None:
        """Count the bytes and the times of a partition's chunk."""
        self._bytes_read += chunk.record_bytes
        newest = max(chunk.timestamps_ms)
        if newest >= 0:
            known = self._max_timestamp_ms.get(chunk.partition, newest)
            self._max_timestamp_ms[chunk.partition] = max(known, newest)

    def skip(self, partition: int, offsets: int) -> None:
        """Count offsets that hold no readable record."""
        self.count(partition, Balance(gaps=offsets))

    def count(self, partition: int, balance: Balance) -> None:
        """Add to a partition's balance."""
        self._balances[partition] += balance

    def written(
        self,
        data_files: list[WrittenFile],
        dead_letter_files: list[WrittenFile],
        routed_files: dict[str, tuple[WrittenFile, ...]] | None = None,
    ) -> Written:
        """Return the finished split's files with what was counted."""
        return Written(
            data_files=tuple(data_files),
            dead_letter_files=tuple(dead_letter_files),
            balances=dict(self._balances),
            bytes_read=self._bytes_read,
            max_timestamp_ms=self._max_timestamp_ms,
            cpu_us={**self._cpu_us, "threads": (_threads_ns() - self._threads_began_ns) // 1000},
            kafka=self.kafka,
            ignored=self.ignored,
            dead_letter_phases=dict(self.dead_letter_phases),
            filtered_reasons=dict(self.filtered_reasons),
            routed_files=routed_files or {},
            unlisted=self.unlisted,
            peak_task_rss_bytes=_peak_rss_bytes(),
        )


def _threads_ns() -> int:
    """Return the CPU time of the process's other threads: they read ahead for whichever step is at work."""
    return time.process_time_ns() - time.thread_time_ns()


def _peak_rss_bytes() -> int:
    # Linux counts in KiB, macOS in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class Source(Protocol):
    """Where the records of a batch's splits are read."""

    @property
    def task_memory_bytes(self) -> int:
        """Bounds what one task may use."""

    def read(self, split: Split, tally: Tally) -> Iterator[Chunk]:
        """The split's records in partition and offset order; what it reads is counted."""


@dataclass(frozen=True, slots=True)
class SplitSource:
    """Where tasks read. It holds secrets: it travels pickled and is never printed."""

    kafka: dict[str, str] = field(repr=False)
    topic: str
    task_memory_bytes: int

    def read(self, split: Split, tally: Tally) -> Iterator[Chunk]:
        """The split's chunks in partition and offset order, every offset between them accounted for."""
        reader = RangeReader(
            self.kafka,
            self.topic,
            max_chunk_bytes=self.task_memory_bytes // 16,
            queue_bytes=self.task_memory_bytes // 4,
        )
        try:
            for ranges in bundles(split.ranges):
                yield from _follow(reader, ranges, tally)
        finally:
            tally.kafka = reader.statistics
            reader.close()


def _follow(reader: RangeReader, ranges: Sequence[OffsetRange], tally: Tally) -> Iterator[Chunk]:
    positions = {each.partition: each.start for each in ranges}
    chunks = reader.read_together(ranges)
    while True:
        with tally.step("fetch"):
            chunk = next(chunks, None)
        if chunk is None:
            break
        for part in chunk.parts():
            positions[part.partition] = tally.follow(part, positions[part.partition])
        yield chunk
    for each in ranges:
        tally.skip(each.partition, each.end - positions[each.partition])


# Dead letters instead of Kafka: what tasks of a redrive read, from the files of the dead-letter table.


CHUNK_LETTERS = 5_000


@dataclass(slots=True)
class LetterChunk(Chunk):
    """Records that are dead letters; ``letters`` are these, in the same order."""

    letters: pa.Table = field(default_factory=lambda: pa.table({}), kw_only=True)


@dataclass(frozen=True, slots=True)
class LetterSource:
    """Where tasks of a redrive read: the letters at ``places``, in ``files`` of the table as it was planned.

    ``io`` holds secrets: it travels pickled and is never printed.
    """

    io: FileIO = field(repr=False)
    schema: Schema
    files: tuple[FileScanTask, ...]
    places: Coordinates
    generation: int
    task_memory_bytes: int

    def read(self, split: Split, tally: Tally) -> Iterator[LetterChunk]:
        """The split's letters in partition and offset order; a split holds what a task has memory for."""
        places = self.places.within(OffsetRanges(split.ranges))
        with tally.step("fetch"):
            try:
                letters = letters_at(self.io, self.files, self.schema, places, self.generation)
            except OSError as error:
                raise storage_error(error, "reading dead letters") from error
        for first in range(0, len(letters), CHUNK_LETTERS):
            with tally.step("fetch"):
                chunk = chunk_of_letters(letters.slice(first, CHUNK_LETTERS))
            for part in chunk.parts():
                tally.note(part)
            yield chunk


def chunk_of_letters(letters: pa.Table) -> LetterChunk:
    """Return letters, in partition and offset order, as the records that they are."""
    partitions, counts = np.unique(letters.column(PARTITION).to_numpy(), return_counts=True)
    runs = tuple(zip(partitions.tolist(), counts.tolist(), strict=True))
    times = letters.column(TIMESTAMP).cast(pa.int64())
    return LetterChunk(
        runs[0][0],
        letters.column(OFFSET).to_pylist(),
        pc.fill_null(pc.divide(times, 1000), -1).to_pylist(),
        letters.column("key").to_pylist(),
        letters.column("value").to_pylist(),
        _headers(letters.column("headers")),
        runs=runs,
        letters=letters,
    )


def failed_again(letters: pa.Table, chunk: Chunk) -> pa.Table:
    """Return the letters that a chunk's records became, with their past where they were letters before."""
    if not (isinstance(chunk, LetterChunk) and len(letters)):
        return letters
    index = {place: row for row, place in enumerate(_places(chunk.letters))}
    before = chunk.letters.take([index[place] for place in _places(letters)])
    first = pc.coalesce(before.column(FIRST_FAILED_AT), before.column(INGESTED_AT))
    failures = pc.add(pc.fill_null(before.column(FAILURES), 1), 1)
    for name, values in ((FIRST_FAILED_AT, first), (FAILURES, failures)):
        at = letters.schema.get_field_index(name)
        kind = letters.schema.field(at)
        letters = letters.set_column(at, kind, values.cast(kind.type))
    return letters


def _places(letters: pa.Table) -> Iterator[tuple[int, int]]:
    return zip(letters.column(PARTITION).to_pylist(), letters.column(OFFSET).to_pylist(), strict=True)


def _headers(headers: pa.ChunkedArray) -> list[list[tuple[str, bytes | None]] | None]:
    if headers.null_count == len(headers):
        return [None] * len(headers)
    return [
        None if each is None else [(header["key"], header["value"]) for header in each]
        for each in headers.to_pylist()
    ]
