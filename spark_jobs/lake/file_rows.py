"""Rows of one data file or a table, in batches and in order, with the columns of a schema.

A filter's columns are read first, a row group at a time, and the others only where one of its rows is to be
kept. Whoever asks for no column gets as many rows from the table's metadata, where that says how many.

PyIceberg's own scan gathers all batches of a file before it gives the first, and reads a null list of structs
as an empty one (apache/iceberg-python#3833). Its reader of a table hands every file to a pool at once and
keeps what it decoded until somebody takes it, which for a slow taker is the whole table.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import accumulate
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression
from pyiceberg.expressions.visitors import bind, extract_field_ids
from pyiceberg.io.pyarrow import _read_all_delete_files, expression_to_pyarrow, schema_to_pyarrow
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table import DataScan, FileScanTask, ManifestGroupPlanner

from spark_jobs.schema.arrow_schema import arrow_schema, field_id, project, renamed
from spark_jobs.schema.column_source import fitted

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestEntry, ManifestFile


_log = logging.getLogger(__name__)

ALWAYS_TRUE = AlwaysTrue()
BATCH_ROWS = 16_384
_POSITION = "position in the row group"
MOST_FILES = 2_000  # of manifests, which are kept: some kilobytes each


def rows_of_file(
    io: FileIO, task: FileScanTask, schema: Schema, row_filter: BooleanExpression = ALWAYS_TRUE
) -> Iterator[pa.Table]:
    """Return rows that are not deleted and meet the filter; columns are found by field id.

    The filter speaks of the schema's columns. Raises ``OSError`` when storage fails.
    """
    wanted = arrow_schema(schema)
    condition = bind(schema, row_filter, case_sensitive=True)
    deleted = _deleted_positions(io, task)
    with io.new_input(task.file.file_path).open() as stream:
        whole = ds.ParquetFileFormat().make_fragment(stream)
        file = pq.ParquetFile(stream, metadata=whole.metadata)
        names = {field_id(field): field.name for field in file.schema_arrow}
        read = [names[field_id(field)] for field in wanted if field_id(field) in names]
        matching = None if row_filter is ALWAYS_TRUE else expression_to_pyarrow(condition)
        for group, first in _row_groups(whole, matching if read == wanted.names else None):
            rows = _RowGroup(file, group, first, wanted, extract_field_ids(condition))
            kept = rows.judged()
            if matching is not None:
                kept = kept.filter(matching)
            if len(deleted):
                kept = kept.filter(pa.array(np.isin(kept.column(_POSITION), deleted, invert=True)))
            yield from rows.whole(kept)


def rows_by_name(io: FileIO, path: str, schema: Schema) -> Iterator[pa.Table]:
    """Return the rows of another table's file; columns are found by their names in files.

    Values that the schema has no column for are left out, with a warning. Raises ``OSError``.
    """
    wanted, in_files = arrow_schema(schema), arrow_schema(sanitize_column_names(schema))
    with io.new_input(path).open() as stream, pq.ParquetFile(stream) as file:
        for name in sorted(set(file.schema_arrow.names).difference(in_files.names)):
            _log.warning("of %s the column %s is left out: the table has none of the name", path, name)
        for batch in file.iter_batches(BATCH_ROWS):
            yield renamed(fitted(pa.Table.from_batches([batch]), in_files), wanted)


@dataclass(frozen=True, slots=True)
class _RowGroup:
    """One row group starting at position ``first``; fields in ``judges`` are read before the others."""

    file: pq.ParquetFile
    number: int
    first: int
    wanted: pa.Schema
    judges: AbstractSet[int]

    def judged(self) -> pa.Table:
        """Return the filter's columns, with the positions in the file."""
        count = self.file.metadata.row_group(self.number).num_rows
        positions = pa.array(np.arange(self.first, self.first + count))
        judges = pa.schema([field for field in self.wanted if field_id(field) in self.judges])
        if not len(judges):
            return pa.table({_POSITION: positions})
        read = (_projected(batch, judges) for batch in self._batches(judges, count))
        return pa.concat_tables(read).append_column(_POSITION, positions)

    def whole(self, kept: pa.Table) -> Iterator[pa.Table]:
        """Return the rows of ``kept``, a subset of ``judged``, with all columns."""
        others = pa.schema([field for field in self.wanted if field_id(field) not in self.judges])
        if not len(others):
            yield kept.select(self.wanted.names)
            return
        positions, first = kept.column(_POSITION).to_numpy() - self.first, 0
        for batch in self._batches(others, BATCH_ROWS) if len(kept) else ():
            begin, end = np.searchsorted(positions, [first, first + len(batch)])
            # Of batches of which nothing is kept no more is done than that they are read.
            if begin < end:
                here = kept.slice(begin, end - begin)
                rest = (
                    batch if len(here) == len(batch) else batch.take(pa.array(positions[begin:end] - first))
                )
                rest = _projected(rest, others)
                columns = [
                    (rest if name in others.names else here).column(name) for name in self.wanted.names
                ]
                yield pa.Table.from_arrays(columns, schema=self.wanted)
            first += len(batch)
            if first > positions[-1]:
                break

    def _batches(self, columns: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
        paths = [*_paths(self.file.schema_arrow, columns)]
        yield from self.file.iter_batches(batch_rows, row_groups=[self.number], columns=paths)


def scan_schema(scan: DataScan) -> pa.Schema:
    """Return the Arrow schema of the scan's rows."""
    return schema_to_pyarrow(scan.projection(), include_field_ids=False)


@dataclass(frozen=True, slots=True)
class PendingRows:
    """A table's state after its pending files are committed: remaining rows, and files to add."""

    staying: BooleanExpression = ALWAYS_TRUE
    files: tuple[FileScanTask, ...] = ()


NOTHING_PENDING = PendingRows()


def stream(scan: DataScan, schema: pa.Schema, pending: PendingRows = NOTHING_PENDING) -> pa.RecordBatchReader:
    """Return the scan's rows with columns in the schema's order.

    One file is open at a time, whatever the table's size.
    """
    return pa.RecordBatchReader.from_batches(schema, _batches(scan, pending, schema))


def row_counts(scan: DataScan, pending: PendingRows = NOTHING_PENDING) -> Iterator[int]:
    """Yield the scan's row counts; files without deletes or a filter are not opened."""
    read = _read_of(scan, pending, {scan.table_metadata.schema().fields[0].field_id})
    for task, row_filter in _tasks(scan, pending):
        if row_filter is ALWAYS_TRUE and not task.delete_files:
            yield task.file.record_count
        else:
            yield from (len(rows) for rows in rows_of_file(scan.io, task, read, row_filter))


def _batches(scan: DataScan, pending: PendingRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    read = _read_of(scan, pending, {field.field_id for field in scan.projection().fields})
    for task, row_filter in _tasks(scan, pending):
        for rows in rows_of_file(scan.io, task, read, row_filter):
            yield from rows.select(schema.names).cast(schema).to_batches()


def _read_of(scan: DataScan, pending: PendingRows, asked: set[int]) -> Schema:
    """Return the columns with these ids, and those that decide which rows are kept."""
    every = (scan if "*" in scan.selected_fields else scan.update(selected_fields=("*",))).projection()
    judged = extract_field_ids(bind(every, And(scan.row_filter, pending.staying), scan.case_sensitive))
    if asked.issuperset(field.field_id for field in every.fields):
        return every
    return Schema(*(field for field in every.fields if field.field_id in asked | judged))


def _tasks(scan: DataScan, pending: PendingRows) -> Iterator[tuple[FileScanTask, BooleanExpression]]:
    """Return the scan's files, pending ones last, and the condition for each one's rows."""
    staying = And(scan.row_filter, pending.staying)
    yield from ((task, staying) for task in planned_files(scan))
    yield from ((task, scan.row_filter) for task in pending.files)


def _row_groups(file: ds.ParquetFileFragment, condition: pc.Expression | None) -> Iterator[tuple[int, int]]:
    """Return number and first position of row groups that may match the condition, by statistics."""
    rows = (file.metadata.row_group(n).num_rows for n in range(file.num_row_groups))
    firsts = list(accumulate(rows, initial=0))
    judged = file if condition is None else file.subset(filter=condition)
    yield from ((group.id, firsts[group.id]) for group in judged.row_groups)


def _paths(there: Iterable[pa.Field], wanted: Iterable[pa.Field]) -> Iterator[str]:
    """Yield the paths to read from a file for these fields: only the required parts of structs."""
    by_id = {field_id(field): field for field in there}
    for field in wanted:
        found = by_id.get(field_id(field))
        if found is None:
            continue
        inside = [*_paths(found.type, field.type)] if pa.types.is_struct(found.type) else []
        # Without one of its fields nobody would know whether a struct is null.
        yield from (f"{found.name}.{path}" for path in inside) if inside else (found.name,)


def _deleted_positions(io: FileIO, task: FileScanTask) -> np.ndarray:
    found = _read_all_delete_files(io, [task]).get(task.file.file_path, [])
    return np.concatenate([np.empty(0, dtype=np.int64), *(column.to_numpy() for column in found)])


def _projected(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.Table:
    struct = project(batch.to_struct_array(), pa.struct(list(wanted)))
    return pa.Table.from_arrays(struct.flatten(), schema=wanted)


def planned_files(scan: DataScan) -> Iterable[FileScanTask]:
    """Return the files of ``scan.plan_files``; a server that plans itself is asked each time."""
    snapshot = scan.snapshot()
    if snapshot is None or scan._should_use_server_side_planning():  # noqa: SLF001  (says who plans)
        return scan.plan_files()
    planner = ManifestGroupPlanner(
        scan.table_metadata, scan.io, scan.row_filter, scan.case_sensitive, scan.options
    )
    manifests = _kept.of(snapshot.manifest_list, lambda: snapshot.manifests(scan.io))
    as_planned: list[Any] = [_Manifest(each) for each in manifests]
    return planner.plan_files(as_planned)


class _Kept:
    """Cached manifests and lists by path, ``MOST_FILES`` in all; safe for any number of threads.

    A manifest never changes: a process that plans again and again, as one that answers queries, reads each
    once and not for every query.
    """

    def __init__(self) -> None:
        self._by_path: OrderedDict[str, list[Any]] = OrderedDict()
        self._files = 0
        self._lock = Lock()

    def of(self, path: str, read: Callable[[], list[Any]]) -> list[Any]:
        """Return the contents of this file; the least recently used file is evicted."""
        with self._lock:
            if path in self._by_path:
                self._by_path.move_to_end(path)
                return self._by_path[path]
        found = read()
        with self._lock:
            if path not in self._by_path:
                self._by_path[path] = found
                self._files += len(found)
            while self._files > MOST_FILES:
                self._files -= len(self._by_path.popitem(last=False)[1])
        return found


_kept = _Kept()


class _Manifest:
    """A manifest with cached entries."""

    def __init__(self, file: ManifestFile) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def fetch_manifest_entry(self, io: FileIO, *, discard_deleted: bool) -> list[ManifestEntry]:
        """Return the manifest's entries of existing files, which is all that planning requests."""
        if not discard_deleted:
            raise AssertionError("files that are gone are no part of a plan")
        return _kept.of(self._file.manifest_path, lambda: self._file.fetch_manifest_entry(io))
