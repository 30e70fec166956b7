"""Writes one split's rows to Parquet files, by row group, with Iceberg's statistics.

Files are written through PyIceberg's writer. What is held in memory is bounded by ``row_group_bytes`` however
many rows and partitions a split has. Nothing is ever deleted here: a file that is not committed is the
sweep's, which knows it by its prefix.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.fileformat import FileFormatFactory, FileFormatWriter
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import sanitize_column_names
from pyiceberg.table.locations import load_location_provider
from pyiceberg.typedef import Record

from spark_jobs.config.iceberg_terms import ROW_GROUP_BYTES, with_fitting_values
from spark_jobs.lake.data_files import fan_out, to_written_file
from spark_jobs.protocol.batch import WrittenFile
from spark_jobs.schema.arrow_schema import arrow_schema, renamed
from spark_jobs.schema.declared import required_column, sorted_by
from spark_jobs.storage.errors import storage_error

if TYPE_CHECKING:
    from pyiceberg.io import FileIO, OutputFile
    from pyiceberg.partitioning import PartitionKey
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata


MAX_OPEN_FILES = 16
_WRITTEN_OUT_BYTES = 32 << 20
# What a column of a few rows takes beside its values, measured: its buffers are padded, and are objects.
_COLUMN_BYTES = 768


def write_files(table: Table, file_prefix: str, rows: Iterable[pa.Table]) -> tuple[WrittenFile, ...]:
    """Write rows outside a task. Raises as ``SplitWriter.write``, and as iterating ``rows`` does."""
    writer = SplitWriter(
        table.metadata,
        table.io,
        file_prefix=file_prefix,
        row_group_bytes=_WRITTEN_OUT_BYTES,
        max_open_files=MAX_OPEN_FILES,
    )
    try:
        for each in rows:
            writer.write(each)
        return tuple(writer.close())
    except BaseException:
        writer.abort()
        raise


@dataclass(slots=True)
class _OpenFile:
    output: OutputFile
    writer: FileFormatWriter
    written_bytes: int = 0


@dataclass(slots=True)
class _Part:
    """A partition's rows being written: its open file, if any, and buffered rows."""

    key: PartitionKey | None
    file: _OpenFile | None = None
    waiting: list[pa.Table] = field(default_factory=list)
    waiting_bytes: int = 0


class SplitWriter:
    """Writes rows of one split, in the given or the table's order, by partition.

    File names are ``<file_prefix>-<nnnnn>.parquet``; the prefix must name the attempt, the split and this try
    of the task, so that no two tries ever share a name. ``row_group_bytes`` is memory: a partition
    is written out when it has that many waiting (or as many as the table's own property of that name says, if
    fewer), the largest one when all together have twice as many. Its
    file is begun then and not before, so that many partitions with few rows each have one file each; beyond
    ``max_open_files`` the largest is closed and its partition starts a new one. Where the table has a sort
    order of ours, what is written out at once, a row group or more, is sorted; a file of several is not as a
    whole, so none claims to be.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        io: FileIO,
        *,
        file_prefix: str,
        row_group_bytes: int,
        max_open_files: int,
    ) -> None:
        self._metadata = metadata
        self._io = io
        self._file_prefix = file_prefix
        self._properties = with_fitting_values(metadata.properties)
        # Cut here, by what is held in memory: PyIceberg's writer only warns that it does not know the key.
        wanted_bytes = int(self._properties.pop(ROW_GROUP_BYTES, row_group_bytes))
        self._row_group_bytes = min(row_group_bytes, wanted_bytes)
        self._max_waiting_bytes = 2 * row_group_bytes
        self._max_open_files = max_open_files
        self._schema = metadata.schema()
        self._arrow_schema = arrow_schema(self._schema)
        self._sorted_by = sorted_by(self._schema, metadata.sort_order())
        # Names in files are such as every reader takes; they are matched by field id.
        self._file_schema = sanitize_column_names(self._schema)
        self._file_arrow_schema = arrow_schema(self._file_schema)
        self._locations = load_location_provider(metadata.location, metadata.properties)
        self._parts: dict[tuple[object, ...], _Part] = {}
        self._waiting_bytes = 0
        self._closed: list[WrittenFile] = []
        self._files_begun = 0
        self._with_dictionary: list[str] | bool | None = None

    def write(self, rows: pa.Table) -> None:
        """Write rows; columns are found by name and must have exactly the table's types.

        Raises ``RetryableError`` when storage fails, ``ConfigError`` when it refuses, or where a required
        column has no value.
        """
        if not len(rows):
            return
        for each in self._arrow_schema:
            if not each.nullable and rows.column(each.name).null_count:
                raise required_column(self._metadata.location, each.name)
        columns = [rows.column(name) for name in self._arrow_schema.names]
        table = pa.Table.from_arrays(columns, schema=self._arrow_schema)
        try:
            for part in fan_out(table, self._metadata.spec(), self._schema):
                self._take(part.identity, part.key, part.rows)
        except OSError as error:
            raise storage_error(error, "writing data files", files=self._file_prefix) from error

    def close(self) -> list[WrittenFile]:
        """Finish every file; return them in the order of closing."""
        try:
            # Open ones first: then none has to make room.
            for identity in sorted(self._parts, key=lambda each: self._parts[each].file is None):
                self._finish(identity)
        except OSError as error:
            raise storage_error(error, "writing data files", files=self._file_prefix) from error
        return list(self._closed)

    def abort(self) -> None:
        """Close open files after a failure; the sweep deletes what was written."""
        for file in self._open_files().values():
            # The failure that led here is the one to report; a file never written to cannot be closed.
            with suppress(Exception):
                file.writer.close()
        self._parts.clear()

    def _take(self, identity: tuple[object, ...], key: PartitionKey | None, rows: pa.Table) -> None:
        part = self._parts.setdefault(identity, _Part(key))
        taken_bytes = rows.nbytes + _COLUMN_BYTES * rows.num_columns
        part.waiting.append(rows)
        part.waiting_bytes += taken_bytes
        self._waiting_bytes += taken_bytes
        if part.waiting_bytes >= self._row_group_bytes:
            self._write_out(part)
        elif self._waiting_bytes >= self._max_waiting_bytes:
            self._write_out(max(self._parts.values(), key=lambda other: other.waiting_bytes))

    def _open_files(self) -> dict[tuple[object, ...], _OpenFile]:
        return {identity: part.file for identity, part in self._parts.items() if part.file is not None}

    def _write_out(self, part: _Part) -> None:
        gathered = sorted_rows(pa.concat_tables(part.waiting), self._sorted_by)
        rows = renamed(gathered, self._file_arrow_schema)
        if part.file is None:
            part.file = self._begin(part.key, rows)
        part.file.writer.write(rows)
        part.file.written_bytes += part.waiting_bytes
        self._waiting_bytes -= part.waiting_bytes
        part.waiting, part.waiting_bytes = [], 0

    def _begin(self, key: PartitionKey | None, first_rows: pa.Table) -> _OpenFile:
        opened = self._open_files()
        if len(opened) >= self._max_open_files:
            self._finish(max(opened, key=lambda other: opened[other].written_bytes))
        name = f"{self._file_prefix}-{self._files_begun:05d}.parquet"
        self._files_begun += 1
        output = self._io.new_output(self._locations.new_data_location(name, key))
        model = FileFormatFactory.get(FileFormat.PARQUET)
        writer = model.create_writer(output, self._file_schema, self._properties)
        # PyIceberg has no properties for them (a contract test holds the name); Spark's writer does the same.
        writer._parquet_writer_kwargs.update(  # type: ignore[attr-defined]  # noqa: SLF001
            write_page_checksum=True, use_dictionary=self._dictionaries_for(first_rows)
        )
        return _OpenFile(output, writer)

    def _dictionaries_for(self, first_rows: pa.Table) -> list[str] | bool:
        """Decide by a file's first rows once there are enough of them, for all later files."""
        if self._with_dictionary is not None:
            return self._with_dictionary
        judged = with_dictionary(first_rows, self._properties)
        if len(first_rows) >= SAMPLE_ROWS:
            self._with_dictionary = judged
        return judged

    def _finish(self, identity: tuple[object, ...]) -> None:
        part = self._parts[identity]
        if part.waiting:
            self._write_out(part)
        if part.file is None:
            raise AssertionError("a partition has rows")
        statistics = part.file.writer.close()
        del self._parts[identity]
        data_file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=part.file.output.location,
            file_format=FileFormat.PARQUET,
            partition=part.key.partition if part.key else Record(),
            file_size_in_bytes=len(part.file.output),
            sort_order_id=None,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )
        data_file.spec_id = self._metadata.default_spec_id
        self._closed.append(to_written_file(data_file, self._metadata))


# How a file's columns are encoded: with a dictionary those that repeat, judged by the file's first rows.
#
# Where most values differ a dictionary is built, outgrown and given up, and its part of the column is written
# twice. Offsets and times of records differ in every topic. Any reader takes a column without one.


DICTIONARY_BYTES = "write.parquet.dict-size-bytes"
# A column that repeats itself is found out within this much; one that does not stops costing sooner.
DEFAULT_DICTIONARY_BYTES = "524288"
# Counting costs as much as writing does, so only so many rows are looked at.
SAMPLE_ROWS = 5_000
# Of numbers and times half: without a dictionary they are eight bytes at most. Strings of which one value in
# twenty repeats among so few are of some 50,000, which outgrow the dictionary; fewer are worth one.
_DISTINCT_SHARE, _DISTINCT_SHARE_OF_BYTES = 0.5, 0.95


def with_dictionary(rows: pa.Table, properties: Mapping[str, str]) -> list[str] | bool:
    """Return the columns with a dictionary in a file that begins with these rows, in PyArrow's form.

    All but those of which most values are distinct, inside of structs too; what lies inside of lists and
    maps keeps its own. A table with a dictionary size of its own has chosen: all that may have one.
    """
    if properties.get(DICTIONARY_BYTES, DEFAULT_DICTIONARY_BYTES) != DEFAULT_DICTIONARY_BYTES:
        return True
    sample = rows.slice(0, SAMPLE_ROWS)
    leaves = chain.from_iterable(map(_leaves, sample.column_names, sample.columns))
    plain = {path for path, column in leaves if _is_mostly_distinct(column)}
    return [path for path in _leaf_paths(rows.schema) if path not in plain]


def _leaves(path: str, column: pa.ChunkedArray) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Yield the column, or its nested columns, by path in the file."""
    if not pa.types.is_struct(column.type):
        yield path, column
        return
    for each, inside in zip(column.type, column.flatten(), strict=True):
        yield from _leaves(f"{path}.{each.name}", inside)


def _is_mostly_distinct(column: pa.ChunkedArray) -> bool:
    if pa.types.is_nested(column.type):
        return False
    if isinstance(column.type, pa.BaseExtensionType):  # a UUID, which Arrow does not count
        column = column.cast(column.type.storage_type)
    share = _DISTINCT_SHARE if pa.types.is_primitive(column.type) else _DISTINCT_SHARE_OF_BYTES
    return bool(pc.count_distinct(column).as_py() > share * (len(column) - column.null_count))


def _leaf_paths(schema: pa.Schema) -> list[str]:
    footer = io.BytesIO()
    pq.write_metadata(schema, footer)
    columns = pq.ParquetFile(footer).schema
    return [columns.column(index).path for index in range(len(columns))]


# Rows in the order of some of their columns, as Iceberg and Spark order them.


def sorted_rows(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return rows sorted ascending by the columns: nulls first, NaN last; the sort is stable."""
    if not columns:
        return rows
    keys = [key for name in columns for key in _keys(rows.column(name))]
    names = [str(number) for number in range(len(keys))]
    order = [(name, "ascending", "at_start") for name in names]
    return rows.take(pc.sort_indices(pa.Table.from_arrays(keys, names), sort_keys=order))


def _keys(column: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
    if pa.types.is_floating(column.type):
        yield pc.is_nan(column)  # Arrow's own order has NaN next to the nulls
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)  # a UUID is ordered by its bytes
    yield column
