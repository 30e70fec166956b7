"""Locates rows of a mirror: keys' rows in its table, and a batch's rows in its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import _read_all_delete_files
from pyiceberg.table import FileScanTask, Table

from spark_jobs.lake.data_files import to_scanned_file
from spark_jobs.lake.file_rows import rows_of_file
from spark_jobs.mirror.fold import FILE, FOLDED_COLUMNS, ROW
from spark_jobs.mirror.keys import Cut, each_once
from spark_jobs.protocol.errors import fault
from spark_jobs.schema.arrow_schema import arrow_schema, field_id, no_rows
from spark_jobs.schema.iceberg_types import OFFSET, PARTITION, ROW_ID, SEQUENCE, SOURCE
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema

    from spark_jobs.protocol.batch import WrittenFile


# Reading a column is decoding: more threads than this wait for each other.
THREADS = 4
# Of more keys than these every row group has some.
MOST_SORTED = 100_000

Positions = Mapping[str, "NDArray[np.int64]"]


@dataclass(frozen=True, slots=True)
class Located:
    """Positions of live rows by data file, and earlier deletes.

    ``whole`` are files of which every row goes; ``delete_files`` is how many the table has.
    """

    found: Positions = field(default_factory=dict)
    deleted: Positions = field(default_factory=dict)
    whole: tuple[DataFile, ...] = ()
    delete_files: int = 0

    @property
    def rows(self) -> int:
        """Number of located rows."""
        return sum(map(len, self.found.values()))


def locate(table: Table, keys: pa.Array, cut: Cut | None = None) -> Located:
    """Find the live rows of ``keys``, and those that ``cut`` removes.

    Raises ``CorruptLog`` (``mirror-key-twice``) where a key has two, ``RetryableError`` when storage fails.
    """
    tasks = list(table.scan().plan_files())
    try:
        deleted = _deleted(table, tasks)
        whole = [task for task in tasks if _is_below(table, task.file, cut)]
        removed = {task.file.file_path for task in whole}
        search = _Search.of(table, keys, cut)
        with ThreadPoolExecutor(THREADS) as pool:
            rest = [task.file.file_path for task in tasks if task.file.file_path not in removed]
            nothing = np.empty(0, np.int64)
            parts = dict(
                zip(
                    rest,
                    pool.map(lambda path: search.in_file(path, deleted.get(path, nothing)), rest),
                    strict=True,
                )
            )
    except OSError as error:
        raise storage_error(error, "looking keys up", table=".".join(table.name())) from error
    _refuse_twice(table, keys, [found[1] for found in parts.values()])
    return Located(
        {path: positions for path, (positions, _) in parts.items() if len(positions)},
        {path: positions for path, positions in deleted.items() if path in parts},
        tuple(task.file for task in whole),
        len({file.file_path for task in tasks for file in task.delete_files}),
    )


@dataclass(frozen=True, slots=True)
class _Search:
    table: Table
    keys: pa.Array
    sorted_keys: NDArray[np.object_] | None
    cut: Cut | None
    columns: Mapping[int, str]

    @classmethod
    def of(cls, table: Table, keys: pa.Array, cut: Cut | None) -> _Search:
        names = (ROW_ID,) if cut is None else (ROW_ID, PARTITION, OFFSET, SEQUENCE)
        columns = {table.schema().find_field(name).field_id: name for name in names}
        ordered = np.sort(keys.to_numpy(zero_copy_only=False)) if len(keys) <= MOST_SORTED else None
        return cls(table, keys, ordered, cut, columns)

    def in_file(self, path: str, deleted: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions of wanted live rows in the file, and which of them match keys."""
        positions, which = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        with self.table.io.new_input(path).open() as stream, pq.ParquetFile(stream) as file:
            names = {
                self.columns[field_id(each)]: each.name
                for each in file.schema_arrow
                if field_id(each) in self.columns
            }
            for first, groups in self._runs(file, names[ROW_ID]):
                rows = file.read_row_groups(groups, columns=list(names.values()))
                found, keys = self._in_rows(rows, names)
                live = np.isin(found + first, deleted, assume_unique=True, invert=True)
                positions.append(found[live] + first)
                which.append(keys[live])
        of_keys = np.concatenate(which)
        return np.concatenate(positions), of_keys[of_keys >= 0]

    def _runs(self, file: pq.ParquetFile, name: str) -> Iterator[tuple[int, list[int]]]:
        """Yield the starts of contiguous row groups that may contain a key.

        Each time the keys are hashed, so that is done for no fewer rows than there are keys.
        """
        first, end = 0, 0
        groups: list[int] = []
        for group in range(file.num_row_groups):
            is_read = self.cut is not None or self._may_have(file, group, name)
            if groups and (not is_read or end - first >= len(self.keys)):
                yield first, groups
                groups = []
            if is_read:
                first = first if groups else end
                groups = [*groups, group]
            end += file.metadata.row_group(group).num_rows
        if groups:
            yield first, groups

    def _in_rows(
        self, rows: pa.Table, names: Mapping[str, str]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        keys = pc.index_in(rows.column(names[ROW_ID]), self.keys).fill_null(-1).to_numpy().astype(np.int64)
        found = keys >= 0
        if self.cut is not None:
            places = (rows.column(names[name]).cast(pa.int64()) for name in (PARTITION, OFFSET, SEQUENCE))
            found |= self.cut.takes(*(each.to_numpy() for each in places))
        return np.flatnonzero(found), keys[found]

    def _may_have(self, file: pq.ParquetFile, group: int, name: str) -> bool:
        """True if a key is between a row group's least and greatest."""
        column = file.schema_arrow.get_field_index(name)
        statistics = file.metadata.row_group(group).column(_leaf(file, column)).statistics
        if self.sorted_keys is None or statistics is None or not statistics.has_min_max:
            return True
        first, end = np.searchsorted(self.sorted_keys, [statistics.min, statistics.max], "left")
        return bool(first < end or (end < len(self.sorted_keys) and self.sorted_keys[end] == statistics.max))


def _leaf(file: pq.ParquetFile, column: int) -> int:
    """Return the index of a column among the file's leaves."""
    name = file.schema_arrow.field(column).name
    return next(n for n in range(file.metadata.num_columns) if file.metadata.schema.column(n).path == name)


def _deleted(table: Table, tasks: list[FileScanTask]) -> dict[str, NDArray[np.int64]]:
    """Return deleted positions by data file, in order."""
    found = _read_all_delete_files(table.io, tasks)
    paths = {task.file.file_path for task in tasks}
    return {
        path: each_once(np.concatenate([column.to_numpy() for column in columns]))
        for path, columns in found.items()
        if path in paths
    }


def _is_below(table: Table, file: DataFile, cut: Cut | None) -> bool:
    """True if all rows of a file have a lower sequence, by the file's bounds."""
    if cut is None or cut.restarts:
        return False
    bound = (file.upper_bounds or {}).get(table.schema().find_field(SEQUENCE).field_id)
    return bound is not None and int.from_bytes(bound, "little", signed=True) < cut.sequence


def _refuse_twice(table: Table, keys: pa.Array, found: list[NDArray[np.int64]]) -> None:
    counts = np.bincount(np.concatenate([np.empty(0, np.int64), *found]), minlength=len(keys))
    twice = np.flatnonzero(counts > 1)
    if len(twice):
        raise fault(
            "mirror-key-twice",
            row=keys[int(twice[0])].as_py(),
            rows=counts[twice[0]],
            keys=len(twice),
            table=".".join(table.name()),
        )


# The events in a batch's files, as far as a fold is of them.


def events_of(table: Table, files: Sequence[WrittenFile]) -> pa.Table:
    """Return the fold's columns of every row of the files, with its file index and position.

    Raises ``RetryableError`` when storage fails, ``ConfigError`` when it refuses.
    """
    columns = [name for name in FOLDED_COLUMNS if name in table.schema().column_names]
    schema = table.schema().select(*columns)
    return pa.concat_tables(
        [_with_positions(no_rows(arrow_schema(schema)), 0, 0), *_parts(table, files, schema)]
    )


def _parts(table: Table, files: Sequence[WrittenFile], schema: Schema) -> Iterator[pa.Table]:
    for number, file in enumerate(files):
        first = 0
        try:
            for rows in rows_of_file(table.io, FileScanTask(to_scanned_file(file)), schema):
                yield _with_positions(rows, number, first)
                first += len(rows)
        except OSError as error:
            raise storage_error(error, "reading a batch's events", file=file.path) from error


def _with_positions(rows: pa.Table, number: int, first: int) -> pa.Table:
    if SOURCE in rows.column_names:  # one text for all
        encoded = pc.dictionary_encode(rows.column(SOURCE))
        rows = rows.set_column(rows.column_names.index(SOURCE), SOURCE, encoded)
    placed = rows.append_column(FILE, pa.array(np.full(len(rows), number, np.int32)))
    return placed.append_column(ROW, pa.array(np.arange(first, first + len(rows))))


def in_file_order(events: pa.Table) -> pa.Table:
    """Return the events by file and row."""
    return events.take(pa.array(np.lexsort([events.column(ROW).to_numpy(), events.column(FILE).to_numpy()])))


def rows_at(table: Table, files: Sequence[WrittenFile], events: pa.Table, schema: Schema) -> pa.Table:
    """Return these columns of the events' rows, ``in_file_order``."""
    ordered = in_file_order(events)
    numbers, rows = ordered.column(FILE).to_numpy(), ordered.column(ROW).to_numpy()
    parts = [no_rows(arrow_schema(schema))]
    for number in each_once(numbers).tolist():
        parts += _rows_at_positions(table, files[number], schema, rows[numbers == number])
    return pa.concat_tables(parts)


def _rows_at_positions(
    table: Table, file: WrittenFile, schema: Schema, rows: np.ndarray
) -> Iterator[pa.Table]:
    """Yield the rows at these sorted positions of a file."""
    first = 0
    for part in rows_of_file(table.io, FileScanTask(to_scanned_file(file)), schema):
        begin, end = np.searchsorted(rows, [first, first + len(part)])
        if begin < end:
            yield part.take(pa.array(rows[begin:end] - first))
        first += len(part)
