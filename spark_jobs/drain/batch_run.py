"""State of one batch: its plan, connections, log and result."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.protocol.batch import Balance, Batch, BatchCounts, Split, counts, total
from spark_jobs.protocol.source import SourceState
from spark_jobs.protocol.texts import count, rate, seconds
from spark_jobs.txlog.entries import Entry

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from spark_jobs.commit.columns_commit import PlannedColumns
    from spark_jobs.connections.connect import Connections
    from spark_jobs.drain.dead_letter_source import DeadLetterSource
    from spark_jobs.protocol.batch import Written
    from spark_jobs.protocol.offsets import OffsetRanges


@dataclass(frozen=True, slots=True)
class BatchResult:
    """A committed batch; ``durations_ms`` is by step, ``cpu_us`` by step over all tasks.

    ``ignored`` counts values of fields that have no column, by dotted name.
    """

    batch: Batch
    counts: BatchCounts
    snapshot_id: int
    valid_through_ms: int | None
    durations_ms: dict[str, int]
    cpu_us: dict[str, int]
    peak_task_rss_bytes: int
    ignored: dict[str, int] = field(default_factory=dict)

    def shown(self) -> dict[str, Any]:
        """Return the result for screens, as plain data."""
        return {
            **self.counts.shown(self.batch),
            "snapshot_id": self.snapshot_id,
            "bytes_read": self.counts.bytes_read,
            "data_files": self.counts.data_files,
            "valid_through_ms": self.valid_through_ms,
            "durations_ms": self.durations_ms,
            "cpu_us": self.cpu_us,
            "peak_task_rss_bytes": self.peak_task_rss_bytes,
            "ignored": self.ignored,
        }


class CommittedBatches:
    """The batches that one run of any kind of work committed, and their totals."""

    __slots__ = ()
    batches: tuple[BatchResult, ...]

    @property
    def balance(self) -> Balance:
        """The sum over the batches."""
        return total(batch.counts.balance for batch in self.batches)

    @property
    def dead_letter_phases(self) -> dict[str, int]:
        """Its dead letters, by the step that they did not pass."""
        return _added_up(batch.counts.dead_letter_phases for batch in self.batches)

    @property
    def filtered_reasons(self) -> dict[str, int]:
        """The filtered records, by reason."""
        return _added_up(batch.counts.filtered_reasons for batch in self.batches)

    @property
    def routed_tables(self) -> dict[str, int]:
        """The rows of other tables, by table."""
        return _added_up(batch.counts.routed_tables for batch in self.batches)


def _added_up(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of several batches' counts, by name."""
    summed: Counter[str] = Counter()
    for each in counts:
        summed.update(each)
    return dict(summed)


class Steps:
    """Wall milliseconds by step."""

    def __init__(self) -> None:
        self.durations_ms: dict[str, int] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time one step."""
        started = time.monotonic()
        yield
        self.durations_ms[name] = round((time.monotonic() - started) * 1000)


@dataclass(frozen=True, slots=True)
class Tables:
    """A pipeline's data table, its dead-letter table, and its routed tables by name."""

    data: Table
    dead_letters: Table
    routed: Mapping[str, Table] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BatchRun:
    """One planned batch with its connections: what every phase needs.

    ``tables`` and ``source`` are as they were when it was planned; ``reason`` is that of the person who asked
    for it. A replay that ``may_lose`` also replaces rows whose records Kafka no longer holds; a redrive reads
    ``letters``. ``columns`` come with the commit: the data table is planned to have them; nothing may be
    converted into a column of its that is not among ``takes_all_but``.
    """

    pipeline: PipelineConfig
    connections: Connections
    batch: Batch
    splits: tuple[Split, ...]
    source: SourceState
    tables: Tables
    bytes_per_record: int
    reason: str = ""
    may_lose: bool = False
    letters: DeadLetterSource | None = None
    steps: Steps = field(default_factory=Steps)
    columns: PlannedColumns | None = None
    takes_all_but: frozenset[str] | None = None

    @property
    def where(self) -> dict[str, str]:
        """Return the context of the batch's errors."""
        return {"pipeline": self.pipeline.name, "table": self.batch.table}

    @property
    def table_uuid(self) -> str:
        """The uuid of the table that the batch was planned for."""
        return str(self.tables.data.metadata.table_uuid)

    def log(self, entry: Entry) -> None:
        """Write one phase to the transaction log."""
        self.connections.txlog.append(self.table_uuid, self.batch, entry)
        self.reach(f"after-{entry.phase.kebab}")

    def reach(self, place: str) -> None:
        """Mark a fail point that the batch has reached: tests can kill it there."""
        self.connections.fail_points.reach(f"{self.batch.kind}.{place}")


# What a run says of a batch, phase by phase: the same words in a terminal and in Dagster's log.


_MOST_RANGES = 8


def planned_line(run: BatchRun) -> str:
    """Return the log line of a planned batch."""
    batch = run.batch
    return (
        f"planned {count(batch.records, 'dead letter' if batch.letters else 'offset')}"
        f" of {count(len(batch.ranges.ranges), 'partition')}"
        f" in {count(len(run.splits), 'task')}: {_shown(batch.ranges)}"
    )


def read_line(written: Written, milliseconds: int) -> str:
    """Return the log line of records read and written, with the speed."""
    records = written.balance.records
    return (
        f"read and wrote {count(records, 'record')} ({written.bytes_read:,} bytes)"
        f" in {seconds(milliseconds)}, {rate(records, milliseconds)}"
    )


def committed_line(batch: BatchResult) -> str:
    """Return the log line of a commit's counts; the time is from its plan to its last commit."""
    named = batch.counts.dead_letter_phases, batch.counts.filtered_reasons, batch.counts.routed_tables
    parts = counts(batch.counts.balance, *named)
    return (
        f"committed {parts} in {seconds(sum(batch.durations_ms.values()))},"
        f" snapshot {batch.snapshot_id}: {_shown(batch.batch.ranges)}"
    )


def _shown(ranges: OffsetRanges) -> str:
    shown = " ".join(str(each) for each in ranges.ranges[:_MOST_RANGES])
    more = len(ranges.ranges) - _MOST_RANGES
    return f"{shown} and {more:,} more" if more > 0 else shown
