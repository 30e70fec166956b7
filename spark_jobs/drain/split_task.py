"""One task's work on a split: consume, decode, shape, write and count. Independent of Spark.

Memory is bounded whatever the split holds: of ``task_memory_bytes`` a quarter is librdkafka's queue, an
eighth a row group being gathered, a thirty-second a chunk; the rest is room for their copies and the writer.
"""

from __future__ import annotations

import resource
import sys
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from spark_jobs.kafka.chunks import Chunk
from spark_jobs.kafka.reader import RangeReader, bundles
from spark_jobs.lake.parquet_writer import MAX_OPEN_FILES, SplitWriter
from spark_jobs.protocol.batch import (
    Balance,
    OutcomeKind,
    Split,
    SplitOutcome,
    Written,
    WrittenFile,
    add_ignored,
)
from spark_jobs.protocol.errors import SluiceError, error_to_json
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.protocol.work import FailPoints
from spark_jobs.records.decoder import Decoder
from spark_jobs.records.row_maker import NewFieldsSeen, RowMaker, taken
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.column_source import fitted, lacking
from spark_jobs.schema.evidence import Evidence

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from spark_jobs.config.columns import Growth


class Tally:
    """Counters of a split's task."""

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
        self.native_left: Counter[str] = Counter()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Charge this thread's CPU time to a step, and librdkafka's to ``threads``."""
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
        """Count the bytes and times of a partition's chunk."""
        self._bytes_read += chunk.record_bytes
        newest = max(chunk.timestamps_ms)
        if newest >= 0:
            known = self._max_timestamp_ms.get(chunk.partition, newest)
            self._max_timestamp_ms[chunk.partition] = max(known, newest)

    def skip(self, partition: int, offsets: int) -> None:
        """Count offsets without a readable record."""
        self.count(partition, Balance(gaps=offsets))

    def count(self, partition: int, balance: Balance) -> None:
        """Add to a partition's balance."""
        self._balances[partition] += balance

    def result(
        self,
        data_files: list[WrittenFile],
        dead_letter_files: list[WrittenFile],
        routed_files: dict[str, tuple[WrittenFile, ...]] | None = None,
    ) -> Written:
        """Return the finished split's files and counts."""
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
            native_left=dict(self.native_left),
            peak_task_rss_bytes=_peak_rss_bytes(),
        )


def _threads_ns() -> int:
    """Return the CPU time of the process's other threads, which read ahead for the current step."""
    return time.process_time_ns() - time.thread_time_ns()


def _peak_rss_bytes() -> int:
    # Linux counts in KiB, macOS in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class Source(Protocol):
    """The input of a batch's splits."""

    @property
    def task_memory_bytes(self) -> int:
        """Memory limit of one task."""

    @property
    def is_kafka(self) -> bool:
        """True if the input is Kafka itself."""

    def read(self, split: Split, tally: Tally) -> Iterator[Chunk]:
        """Yield the split's records by partition and offset, counting what is read."""

    def with_past(self, letters: pa.Table, chunk: Chunk) -> pa.Table:
        """Return a chunk's dead letters with their earlier history."""


@dataclass(frozen=True, slots=True)
class SplitSource:
    """Kafka as the input of tasks. It contains secrets: it travels pickled and is never printed."""

    kafka: dict[str, str] = field(repr=False)
    topic: str
    task_memory_bytes: int
    is_kafka: ClassVar[bool] = True

    def read(self, split: Split, tally: Tally) -> Iterator[Chunk]:
        """Yield the split's chunks by partition and offset; every offset between them is counted."""
        reader = RangeReader(
            self.kafka,
            self.topic,
            max_chunk_bytes=self.task_memory_bytes // 32,
            queue_bytes=self.task_memory_bytes // 4,
        )
        try:
            for ranges in bundles(split.ranges):
                yield from _follow(reader, ranges, tally)
        finally:
            tally.kafka = reader.statistics
            reader.close()

    def with_past(self, letters: pa.Table, _chunk: Chunk) -> pa.Table:
        """Return the dead letters unchanged: records from Kafka have no history."""
        return letters


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


@dataclass(frozen=True, slots=True)
class TableTarget:
    """A table to write files for: metadata without its history, and access to its storage."""

    metadata: TableMetadata
    io: FileIO = field(repr=False)


def table_target(table: Table) -> TableTarget:
    """Return the part of a table that tasks need; its history would enlarge every batch."""
    bare = table.metadata.model_copy(
        update={
            "snapshots": [],
            "snapshot_log": [],
            "metadata_log": [],
            "refs": {},
            "current_snapshot_id": None,
        }
    )
    return TableTarget(bare, table.io)


@dataclass(frozen=True, slots=True)
class SplitTask:
    """The data shared by all tasks of a batch."""

    source: Source
    rows: RowMaker
    file_prefix: str
    data: TableTarget
    dead_letters: TableTarget
    fail_points: FailPoints
    routed: Mapping[str, TableTarget] = field(default_factory=dict)

    def open_writer(self, target: TableTarget, file_prefix: str, beside: int = 1) -> SplitWriter:
        """Return a writer that buffers at most an eighth of the task's memory per row group.

        Of several ``beside`` each other each has its share.
        """
        return SplitWriter(
            target.metadata,
            target.io,
            file_prefix=file_prefix,
            row_group_bytes=self.source.task_memory_bytes // 8 // beside,
            max_open_files=max(1, MAX_OPEN_FILES // beside),
        )

    def open_routed(self, file_prefix: str) -> RoutedWriters:
        """Return writers of routed tables, which together use the memory of one."""
        # Tables may share a folder.
        prefixes = {name: f"{file_prefix}-to{number}" for number, name in enumerate(sorted(self.routed))}
        return RoutedWriters(
            self.routed_tables,
            lambda name: self.open_writer(self.routed[name], prefixes[name], len(self.routed)),
        )

    @property
    def routed_tables(self) -> dict[str, RoutedTable]:
        """The tables that rows are routed to, and the columns they can take."""
        own = self.data.metadata.schema()
        schemas = {name: target.metadata.schema() for name, target in self.routed.items()}
        return {
            name: RoutedTable(arrow_schema(schema), frozenset(lacking(own, schema)))
            for name, schema in schemas.items()
        }


def run_split(task: SplitTask, split: Split) -> SplitOutcome:
    """Write one split's files; return OBSERVED if it met fields without a column (files are swept)."""
    try:
        try:
            return _write_split(task, split)
        except ColumnsLacking:
            return _observe_routed(task, split)
    except NewFieldsSeen:
        return observe_split(task.source, task.rows.decoder, task.rows.growth, split)
    except SluiceError as error:
        return SplitOutcome(split.split_id, OutcomeKind.FAILED, error=error_to_json(error))


def observe_split(source: Source, decoder: Decoder, growth: Growth, split: Split) -> SplitOutcome:
    """Read one split to observe the types of its fields; write nothing."""
    evidence = Evidence()
    try:
        for chunk in source.read(split, Tally()):
            evidence = evidence.merge(decoder.observe(chunk, growth)).within(growth.max_fields_seen)
    except SluiceError as error:
        return SplitOutcome(split.split_id, OutcomeKind.FAILED, error=error_to_json(error))
    return SplitOutcome(split.split_id, OutcomeKind.OBSERVED, evidence=evidence.to_json())


def _observe_routed(task: SplitTask, split: Split) -> SplitOutcome:
    """Read one split to observe the columns that routed rows need; write nothing."""
    tables = task.routed_tables
    needed: dict[str, set[str]] = {name: set() for name in tables}
    for chunk in task.source.read(split, Tally()):
        for name, rows in task.rows.make(chunk).routed.items():
            needed[name] |= tables[name].lacks(rows)
    lacking = {name: tuple(sorted(columns)) for name, columns in needed.items() if columns}
    return SplitOutcome(split.split_id, OutcomeKind.OBSERVED, lacking=lacking)


def _write_split(task: SplitTask, split: Split) -> SplitOutcome:
    # A retried task writes under names of its own: only files that are returned are ever committed.
    prefix = f"{task.file_prefix}-{split.split_id:05d}-{uuid.uuid4().hex[:8]}"
    rows_out = task.open_writer(task.data, prefix)
    dead_letters_out = task.open_writer(task.dead_letters, f"{prefix}-letters")  # they may share a folder
    routed_out = task.open_routed(prefix)
    tally = Tally()
    try:
        for chunk in task.source.read(split, tally):
            for part in chunk.parts() if task.source.is_kafka else ():
                task.fail_points.reach(
                    f"split.decode-{part.partition}:{part.offsets[0]}-{part.offsets[-1] + 1}"
                )
            rows = task.rows.make(chunk, tally.step)
            for partition, balance in rows.balances.items():
                tally.count(partition, balance)
            tally.ignored = add_ignored(tally.ignored, rows.ignored)
            tally.dead_letter_phases.update(rows.dead_letter_phases)
            tally.filtered_reasons.update(rows.filtered_reasons)
            tally.unlisted = add_ignored(tally.unlisted, rows.unlisted)
            tally.native_left.update(rows.native_left)
            with tally.step("write"):
                rows_out.write(rows.rows)
                dead_letters_out.write(task.source.with_past(rows.dead_letters, chunk))
                routed_out.write(rows.routed)
            task.fail_points.reach("split.after-chunk")
        with tally.step("write"):
            data_files, dead_letter_files = rows_out.close(), dead_letters_out.close()
            routed_files = routed_out.close()
    except BaseException:
        rows_out.abort()
        dead_letters_out.abort()
        routed_out.abort()
        raise
    written = tally.result(data_files, dead_letter_files, routed_files)
    return SplitOutcome(split.split_id, OutcomeKind.WRITTEN, written)


# The routed rows of one split into files of their tables, whose columns are those that their rows need.


MOST_WAITING_BYTES = 8 << 20


class ColumnsLacking(Exception):
    """Rows have values that their routed table has no column for."""


@dataclass(frozen=True, slots=True)
class RoutedTable:
    """A routed table: its schema, and the pipeline's columns that it cannot take."""

    columns: pa.Schema
    lacking: frozenset[str]

    def lacks(self, rows: pa.Table) -> frozenset[str]:
        """Return the columns with values that the table cannot take."""
        return frozenset(name for name in self.lacking if rows.column(name).null_count < len(rows))


@dataclass
class RoutedWriters:
    """The writers of a split's routed rows; each is opened with its table's first row.

    A chunk has few rows for each of many tables: they are gathered until handing them over is worth a call.
    """

    tables: Mapping[str, RoutedTable]
    open_writer: Callable[[str], SplitWriter]
    _opened: dict[str, SplitWriter] = field(default_factory=dict)
    _waiting: dict[str, list[pa.Table]] = field(default_factory=dict)
    _waiting_bytes: int = 0

    def write(self, routed: Mapping[str, pa.Table]) -> None:
        """Write rows by table, in the pipeline's columns. Raises ``ColumnsLacking``."""
        for name, rows in routed.items():
            if self.tables[name].lacks(rows):
                raise ColumnsLacking
            self._waiting.setdefault(name, []).append(rows)
        if routed:
            # They are cut out of one table, which they keep; one of them says well enough how large it is.
            largest = max(routed.values(), key=len)
            self._waiting_bytes += largest.nbytes * sum(map(len, routed.values())) // len(largest)
        if self._waiting_bytes >= MOST_WAITING_BYTES:
            self._hand_over()

    def _hand_over(self) -> None:
        for name, parts in self._waiting.items():
            if name not in self._opened:
                self._opened[name] = self.open_writer(name)
            rows = pa.concat_tables(parts)
            copy = rows.combine_chunks() if len(parts) > 1 else taken(rows, np.arange(len(rows)))
            self._opened[name].write(fitted(copy, self.tables[name].columns))
        self._waiting.clear()
        self._waiting_bytes = 0

    def close(self) -> dict[str, tuple[WrittenFile, ...]]:
        """Finish every file."""
        self._hand_over()
        return {name: tuple(writer.close()) for name, writer in self._opened.items()}

    def abort(self) -> None:
        """Close open files after a failure."""
        for writer in self._opened.values():
            writer.abort()
