"""The batch history table: adding finished attempts, each once, and reading them back.

It is a table of Sluice's like any other, born with a snapshot and committed to by the same swap; its progress
has no offsets, only the commits it is recognised by. Other writers may delete what they no longer want to
keep: nothing depends on the books but history.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import pyarrow.compute as pc
from pyiceberg.expressions import And, BooleanExpression
from pyiceberg.schema import assign_fresh_schema_ids

from spark_jobs.books.columns import (
    PARTITION_BY,
    STARTED_AT,
    books_schema,
    entry_from_row,
    further_columns,
    rows_of,
)
from spark_jobs.books.entries import BookEntry
from spark_jobs.commit.swap import CatalogAccess, Swap, land, stage_append
from spark_jobs.commit.table_creation import create_with_snapshot
from spark_jobs.lake.catalog import released
from spark_jobs.lake.data_files import to_data_file
from spark_jobs.lake.parquet_writer import write_files
from spark_jobs.lake.row_filters import equals, is_among, is_between
from spark_jobs.lake.tables import evolve_table, load_table, progress_of
from spark_jobs.protocol.batch import WrittenFile
from spark_jobs.protocol.commit_summary import attempt_summary
from spark_jobs.protocol.progress import Progress
from spark_jobs.schema.declared import partition_spec

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


EPOCH_YEAR = 1970


@dataclass(frozen=True, slots=True)
class Entered:
    """Result of a fold; ``snapshot_id`` is None if the table already had every attempt."""

    rows: int
    snapshot_id: int | None


def enter(connections: CatalogAccess, identifier: str, entries: Sequence[BookEntry], *, fold: str) -> Entered:
    """Add the entries that the table ``identifier`` lacks; ``fold`` is the uuid of this commit.

    Which ones are there is looked up again on the table of every try, so two folds at once, or one that is
    repeated after its outcome was unknown, add each attempt once. Raises what ``land`` raises.
    """
    intent = _FoldCommit(identifier, fold, {entry.attempt: entry for entry in entries})
    books = _open_books(connections.open_catalog, identifier)
    if further := further_columns(entries):
        books = evolve_table(connections.open_catalog, identifier, further)
    if not intent.missing(books):
        return Entered(0, None)
    committed = land(connections, intent)
    return Entered(len(next(reversed(intent.written))), committed.snapshot_id)


def newest_first(books: Table, which: BooleanExpression) -> Iterator[BookEntry]:
    """Yield the entries that ``which`` selects, month by month, so that reading a few is cheap."""
    months = sorted({task.file.partition[0] for task in books.scan(which).plan_files()}, reverse=True)
    for month in months:
        inside = And(which, is_between(STARTED_AT, _month_start(month), _month_start(month + 1)))
        rows = books.scan(inside).to_arrow().sort_by([(STARTED_AT, "descending"), ("attempt", "ascending")])
        for batch in rows.to_batches(max_chunksize=1_000):
            yield from map(entry_from_row, batch.to_pylist())


def covering(books: Table, table_uuid: str, partition: int, offset: int) -> Iterator[BookEntry]:
    """Return the entries of a table, of all generations, with ranges that contain the offset; unordered."""
    for batch in books.scan(equals("table_uuid", table_uuid)).to_arrow_batch_reader():
        ranges = pc.list_flatten(batch.column("ranges"))
        holds = pc.and_(
            pc.equal(pc.struct_field(ranges, "partition"), partition),
            pc.and_(
                pc.less_equal(pc.struct_field(ranges, "start"), offset),
                pc.greater(pc.struct_field(ranges, "end"), offset),
            ),
        )
        parents = pc.list_parent_indices(batch.column("ranges")).filter(holds)
        yield from map(entry_from_row, batch.take(parents).to_pylist())


def _open_books(open_catalog: Callable[[], Catalog], identifier: str) -> Table:
    with released(open_catalog()) as catalog:
        if (table := load_table(catalog, identifier)) is not None:
            return table
        schema = assign_fresh_schema_ids(books_schema())
        return create_with_snapshot(
            catalog,
            identifier,
            schema=schema,
            spec=partition_spec(schema, PARTITION_BY),
            properties={},
            progress=Progress(topic="", generation=0, next_offsets={}),
        )


@dataclass(frozen=True)
class _FoldCommit:
    """One fold: files of the entries that the table lacks, ``written`` again if the lack changes."""

    identifier: str
    attempt: str
    entries: Mapping[str, BookEntry]
    written: dict[frozenset[str], tuple[WrittenFile, ...]] = field(default_factory=dict)
    fail_point: ClassVar[str] = "checkpoint"

    def stage(self, table: Table, connections: CatalogAccess) -> Swap:
        """Stage it on the table just loaded."""
        data_files = [to_data_file(file, table.metadata) for file in self.write(table)]
        connections.fail_points.reach("checkpoint.after-files")
        recorded = progress_of(table).with_attempt(self.attempt)
        return stage_append(table, data_files, recorded, attempt_summary(self.attempt))

    def missing(self, table: Table) -> frozenset[str]:
        """Return the attempts that the table lacks."""
        started = [entry.started_at_us for entry in self.entries.values()]
        period = is_between(STARTED_AT, _time(min(started)), _time(max(started) + 1))
        among = And(period, is_among("attempt", self.entries))
        there = table.scan(among, selected_fields=("attempt",)).to_arrow().column("attempt").to_pylist()
        return frozenset(self.entries) - frozenset(there)

    def write(self, table: Table) -> tuple[WrittenFile, ...]:
        """Write files with the entries that the table lacks; reuse them for the same lack."""
        missing = self.missing(table)
        if missing not in self.written:
            rows = rows_of(table, (self.entries[attempt] for attempt in missing))
            self.written[missing] = write_files(table, f"{self.attempt}-{len(self.written)}", [rows])
        return self.written[missing]


def _month_start(month: int) -> str:
    """Return the first moment of a month counted from January 1970, as Iceberg's ``month`` does."""
    return dt.datetime(EPOCH_YEAR + month // 12, month % 12 + 1, 1, tzinfo=dt.UTC).isoformat()


def _time(microseconds: int) -> str:
    moment = dt.datetime(EPOCH_YEAR, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=microseconds)
    return moment.isoformat()
