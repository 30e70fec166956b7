"""A small lake for tests: tables, batches with real Parquet files, and what a reader then sees."""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from spark_jobs.commit.batch_commit import ChangeCommit, DrainCommit
from spark_jobs.commit.swap import land
from spark_jobs.commit.table_creation import create_table
from spark_jobs.lake.catalog import open_catalog
from spark_jobs.lake.parquet_writer import SplitWriter
from spark_jobs.lake.tables import dead_letters_of, load_table, progress_of
from spark_jobs.protocol.batch import Balance, Batch
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.protocol.progress import Progress
from spark_jobs.protocol.work import NoFailPoints
from spark_jobs.protocol.works.changes import PAUSE
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.storage.create_only import CreateOnlyStore
from spark_jobs.txlog.entries import ParquetWritten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from spark_jobs.commit.swap import Committed
    from spark_jobs.protocol.batch import WrittenFile
    from spark_jobs.protocol.work import FailPoints

TOPIC = "flights"
DAY = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "at", TimestamptzType(), required=False),
)


@dataclass(frozen=True)
class Access:
    """What a commit needs of a job's connections."""

    open_catalog: Callable[[], Catalog]
    fail_points: FailPoints
    folder: str = ""

    @property
    def state(self) -> CreateOnlyStore:
        return CreateOnlyStore(self.folder, {})


@dataclass(frozen=True)
class Lake:
    """One catalog with a namespace of its own; ``open`` gives a new catalog object every time."""

    kind: str
    properties: dict[str, str]
    namespace: str

    def open(self) -> Catalog:
        return open_catalog("sluice", self.properties)

    def name(self, table: str = "t") -> str:
        return f"{self.namespace}.{table}"

    def behind(self, uri: str) -> Lake:
        """The same lake, its catalog reached through a proxy."""
        return Lake(self.kind, {**self.properties, "uri": uri}, self.namespace)

    def load(self, table: str = "t") -> Table:
        found = load_table(self.open(), self.name(table))
        assert found is not None
        return found

    def make_table(self, table: str = "t", *, starts: Mapping[int, int] | None = None, **more: Any) -> Table:
        options: dict[str, Any] = {"partition_by": (), "properties": {}, "dead_letters": True, **more}
        progress = Progress(TOPIC, 0, dict(starts or {0: 0}), cluster_id="c", topic_id="t")
        return create_table(self.open(), self.name(table), SCHEMA, progress=progress, **options)

    def request(
        self,
        start: int,
        end: int,
        *,
        table: str = "t",
        partition: int = 0,
        attempt: str | None = None,
        dead_letters: Sequence[int] = (),
        files: bool = True,
    ) -> DrainCommit:
        """A batch [start, end) of one partition, its rows and dead letters written, nothing committed."""
        ranges = OffsetRanges((OffsetRange(partition, start, end),))
        loaded = self.load(table)
        batch = Batch(
            "p",
            self.name(table),
            TOPIC,
            0,
            ranges,
            attempt or uuid.uuid4().hex,
            1_767_225_600_000_000,
            epoch=progress_of(loaded).rollbacks,
        )
        offsets = [o for o in range(start, end) if o not in dead_letters]
        data_files = tuple(write_rows(loaded, partition, offsets, batch.attempt)) if files else ()
        written = ParquetWritten(
            data_files=data_files,
            dead_letter_files=self._dead_letters(batch, partition, dead_letters) if dead_letters else (),
            rows=len(offsets) if files else 0,
            bytes_read=100,
            file_bytes=sum(file.bytes for file in data_files),
            balances={partition: _balance(ranges.records, len(offsets) if files else 0, len(dead_letters))},
            summary={"sluice.actor": "test"},
        )
        return DrainCommit(batch, str(loaded.metadata.table_uuid), written, committed_at_ms=0)

    def _dead_letters(self, batch: Batch, partition: int, offsets: Sequence[int]) -> tuple[WrittenFile, ...]:
        table = self.load(dead_letters_of(batch.table).rpartition(".")[2])
        return tuple(write_dead_letters(table, partition, offsets, batch.attempt))

    def commit(self, request: DrainCommit, before_swap: Callable[[], None] | None = None) -> Committed:
        return land(self.access(Once("commit.before-swap", before_swap) if before_swap else None), request)

    def access(self, fail_points: FailPoints | None = None) -> Access:
        return Access(self.open, fail_points or NoFailPoints())

    def has_landed(self, attempt: str, table: str = "t") -> bool:
        return progress_of(self.load(table)).has_landed(attempt)

    def drain(self, start: int, end: int, **more: Any) -> Committed:
        return self.commit(self.request(start, end, **more))

    def act(self, change: Callable[[Progress], Progress], fail_points: FailPoints | None = None) -> Committed:
        batch = Batch("p", self.name(), TOPIC, 0, OffsetRanges(()), uuid.uuid4().hex, 1, kind=PAUSE)
        return land(self.access(fail_points), ChangeCommit(batch, change, {}))

    def compact(self, name: str = "t") -> None:
        """A ``replace`` snapshot as compaction by another engine leaves it: without our summary."""
        table = self.load(name)
        transaction = table.transaction()
        with transaction.update_snapshot().fast_append():
            pass
        updates = tuple(
            _as_replace(u) if isinstance(u, AddSnapshotUpdate) else u for u in transaction._updates
        )
        self.open().commit_table(table, transaction._requirements, updates)

    def offsets(self, table: str = "t") -> list[int]:
        """Every ``_kafka_offset`` a reader sees, sorted; doubled ones twice."""
        return sorted(self.load(table).scan(selected_fields=("_kafka_offset",)).to_arrow()[0].to_pylist())

    def next_offset(self, table: str = "t", partition: int = 0) -> int:
        return progress_of(self.load(table)).next_offsets[partition]


class Once:
    """Fail points that run something when one of them is reached for the first time."""

    def __init__(self, name: str, action: Callable[[], None]) -> None:
        self._waiting = {name: action}

    def reach(self, name: str) -> None:
        action = self._waiting.pop(name, None)
        if action:
            action()

    def __reduce__(self) -> tuple[object, ...]:
        """What travels with a task has nothing to run."""
        return NoFailPoints, ()


def _balance(offsets: int, rows: int, dead_letters: int) -> Balance:
    """What is neither is a tombstone."""
    return Balance(rows=rows, dead_letters=dead_letters, tombstones=offsets - rows - dead_letters)


def _as_replace(update: AddSnapshotUpdate) -> AddSnapshotUpdate:
    replaced = update.snapshot.model_copy(update={"summary": Summary(Operation.REPLACE)})
    return update.model_copy(update={"snapshot": replaced})


def write_rows(table: Table, partition: int, offsets: Sequence[int], attempt: str) -> list[WrittenFile]:
    """Write one row for each offset through the writer of a task."""
    rows = [
        {"id": o, "name": f"n{o}", "at": DAY + dt.timedelta(hours=o), **_coordinates(partition, o)}
        for o in offsets
    ]
    return _write(table, rows, attempt)


def write_dead_letters(
    table: Table, partition: int, offsets: Sequence[int], attempt: str
) -> list[WrittenFile]:
    """Write one dead letter for each offset."""
    rows = [{"value": b"{", "error": "not JSON", **_coordinates(partition, o)} for o in offsets]
    return _write(table, rows, attempt)


def write_letters(
    table: Table, partition: int, letters: Mapping[int, bytes], attempt: str, **others: Any
) -> list[WrittenFile]:
    """Write dead letters with these values by their offsets, as a batch of an earlier version would.

    ``others`` are columns that they all have otherwise.
    """
    told = {"phase": "decode", "error": "was no JSON", "batch_id": "drain-1", "key": b"k"}
    rows = [
        {**told, "value": value, **_coordinates(partition, offset), **others}
        for offset, value in letters.items()
    ]
    return _write(table, rows, attempt)


def _write(table: Table, rows: list[dict[str, Any]], attempt: str) -> list[WrittenFile]:
    prefix = f"{attempt}-0-{uuid.uuid4().hex[:8]}"
    writer = SplitWriter(
        table.metadata, table.io, file_prefix=prefix, row_group_bytes=1 << 20, max_open_files=8
    )
    writer.write(pa.Table.from_pylist(rows, schema=arrow_schema(table.schema())))
    return writer.close()


def _coordinates(partition: int, offset: int) -> dict[str, Any]:
    at = DAY + dt.timedelta(seconds=offset)
    return {
        "_kafka_topic": TOPIC,
        "_kafka_partition": partition,
        "_kafka_offset": offset,
        "_kafka_generation": 0,
        "_kafka_timestamp": at,
        "_ingested_at": DAY,
    }


def sends_of(catalog: Catalog, seen: list[tuple[Any, ...]]) -> Catalog:
    """Record the requirements of every commit this catalog object sends."""
    catalog.commit_table = partial(_record, catalog.commit_table, seen)  # type: ignore[method-assign]
    return catalog


def _record(
    send: Callable[..., Any], seen: list[tuple[Any, ...]], table: Any, requirements: Any, updates: Any
) -> Any:
    seen.append(requirements)
    return send(table, requirements, updates)
