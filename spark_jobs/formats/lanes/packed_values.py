"""Values packed into one piece of memory, for readers that process many at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Protocol, Self, overload

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema

from spark_jobs.schema.arrow_schema import arrow_schema, column_of, no_rows
from spark_jobs.schema.writer_schema import ReadValues, Unread, UnreadableValueError, WriterColumns

# Behind the last value there are as many zero bytes, so that words may be read wherever a value ends, and
# the 36 bytes of a UUID's text where there is none.
PADDING = 64
MOST_BYTES = (1 << 31) - 1 - PADDING  # Arrow counts those of a column in 32 bits
_BINARY = pa.binary()


class PackedValues(Sequence[bytes]):
    """``data`` contains the values from ``starts`` to ``ends``, in order, with any bytes between them."""

    def __init__(self, data: pa.Buffer, starts: np.ndarray, ends: np.ndarray) -> None:
        self.data = data
        self.starts = starts
        self.ends = ends

    @classmethod
    def of(cls, values: Sequence[bytes]) -> PackedValues:
        """Return values packed; already packed values are returned unchanged."""
        if isinstance(values, PackedValues):
            return values
        # Arrow joins and measures them in one go.
        packed = pa.array([*values, bytes(PADDING)], pa.large_binary())
        _, offsets, data = packed.buffers()
        bounds = np.frombuffer(offsets, np.int64)[: len(packed)]
        return cls(data.slice(0, int(bounds[-1]) + PADDING), bounds[:-1], bounds[1:])

    @classmethod
    def beside_column(cls, values: Sequence[bytes | None]) -> tuple[PackedValues, pa.Array]:
        """Return values packed, with nulls as empty values, and as a column that shares their memory."""
        grown = pa.array([*values, bytes(PADDING)], _BINARY)
        # Arrow doubles a column's memory while it builds it, and keeps what is left over.
        column = pa.concat_arrays([grown, grown[:0]])
        _, offsets, data = column.buffers()
        bounds = np.frombuffer(offsets, np.int32)[: len(column)].astype(np.int64)
        return cls(data, bounds[:-1], bounds[1:]), column[:-1]

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[bytes]:
        every = memoryview(self.data)
        return (
            bytes(every[start:end])
            for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        )

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> PackedValues: ...
    def __getitem__(self, index: int | slice) -> bytes | PackedValues:
        if isinstance(index, slice):
            return PackedValues(self.data, self.starts[index], self.ends[index])
        return bytes(memoryview(self.data)[self.starts[index] : self.ends[index]])

    def parts(self, most_bytes: int) -> Iterator[PackedValues]:
        """Yield all values in order, in parts of about this many bytes; there is at least one part."""
        sizes = self.ends - self.starts
        numbers = (np.cumsum(sizes) - sizes) // most_bytes
        cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(self)]
        for start, end in pairwise(cuts):
            yield self[start:end]

    def take(self, indices: np.ndarray) -> PackedValues:
        """Return the values at these positions."""
        return PackedValues(self.data, self.starts[indices], self.ends[indices])


def joined(parts: Sequence[PackedValues]) -> PackedValues:
    """Join values that share one piece of memory, part by part."""
    starts, ends = (np.concatenate(each) for each in zip(*((p.starts, p.ends) for p in parts), strict=True))
    return PackedValues(parts[0].data, starts, ends)


def words_at(data: pa.Buffer, places: np.ndarray) -> np.ndarray:
    """Return the eight bytes at each of these positions, as numbers."""
    # Pieces without a type: numbers that are nowhere aligned NumPy would put in order one by one.
    pieces = np.ndarray(len(data) - 7, np.dtype("V8"), data, strides=(1,))
    words: np.ndarray = pieces[places].view(np.dtype("<u8"))
    return words


def binary_column(
    data: pa.Buffer,
    starts: np.ndarray,
    ends: np.ndarray,
    is_null: np.ndarray | None = None,
    kind: pa.DataType = _BINARY,
) -> pa.Array:
    """Return pieces of ``data`` as a column; pieces must ascend and not overlap.

    A null has none. Whether they are UTF-8 is not looked at. Arrow takes every second value of a column that
    has what lies between them, too.
    """
    if not len(starts):
        return pa.array([], kind)
    is_empty = ends == starts
    if is_empty.any():  # as nulls are, wherever they were said to be
        ends = np.maximum.accumulate(np.where(is_empty, 0, ends))
        starts = np.where(is_empty, ends, starts)
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2], bounds[1::2] = starts, ends
    buffers = [None, pa.py_buffer(bounds), data]
    pieces = pa.Array.from_buffers(kind, len(bounds) - 1, buffers)
    return pieces.take(pa.array(np.arange(0, len(bounds), 2, dtype=np.int32), mask=is_null))


# Values read as a block where it is sure of them, and alone where not; in parts that stay small.


_MOST_BYTES_AT_ONCE = 2 << 20
_MOST_SCHEMAS = 512


class Block(Protocol):
    """A format's reader of many values at once."""

    def read(self, values: PackedValues) -> tuple[pa.Table, np.ndarray]:
        """Return rows of the values it is sure of, and the mask of those values."""
        ...


@dataclass(frozen=True, slots=True)
class Readers:
    """Readers derived from a schema; ``alike`` is equal if they read alike, None: for equal schemas."""

    columns: WriterColumns
    read: Callable[[Sequence[bytes]], ReadValues]
    read_plain: Callable[[bytes], Mapping[str, Any]]
    alike: object = None

    @classmethod
    def block_first(
        cls,
        columns: WriterColumns,
        block: Callable[[pa.Schema], Block],
        fewest: int,
        read_one: Callable[[bytes], tuple[Mapping[str, Any], Mapping[str, int]]],
        alike: object = None,
    ) -> Readers:
        """Return readers with a block of Arrow columns, and with a one-by-one reader; see ``BlockFirst``."""
        arrow = arrow_schema(Schema(*columns.struct.fields))
        first = BlockFirst(block(arrow), fewest, read_one, arrow)
        return cls(columns, first.read, lambda value: read_one(value)[0], alike)


class ParsedOnce(ABC):
    """A ``WriterSchema`` that is text; each process that receives it parses the text once."""

    @abstractmethod
    def readers(self) -> Readers:
        """Return the object derived from the text. Raises ``ConfigError`` if it gives no table."""

    def usable(self) -> Self:
        """Return the schema itself if it can be parsed; raises as ``readers``."""
        _readers_of(self)
        return self

    @property
    def columns(self) -> WriterColumns:
        """See ``WriterSchema``."""
        return _readers_of(self).columns

    @property
    def reading(self) -> object:
        """See ``WriterSchema``."""
        alike = _readers_of(self).alike
        return self if alike is None else alike

    def read(self, values: Sequence[bytes]) -> ReadValues:
        """See ``WriterSchema``."""
        return _readers_of(self).read(values)

    def read_plain(self, value: bytes) -> Mapping[str, Any]:
        """See ``WriterSchema``."""
        return _readers_of(self).read_plain(value)


@lru_cache(_MOST_SCHEMAS)
def _readers_of(schema: ParsedOnce) -> Readers:
    return schema.readers()


@dataclass(frozen=True, slots=True)
class BlockFirst:
    """Reads values as a block; marked values, or all if fewer than ``fewest``, are read one by one.

    ``read_one`` gives a row, and how often it ignored which field, or raises ``UnreadableValueError``.
    """

    block: Block
    fewest: int
    read_one: Callable[[bytes], tuple[Mapping[str, Any], Mapping[str, int]]]
    columns: pa.Schema

    def read(self, values: Sequence[bytes]) -> ReadValues:
        """Return all values read; large inputs are split, as items of one byte take fifty in memory."""
        packed = PackedValues.of(values)
        parts = list(packed.parts(_MOST_BYTES_AT_ONCE))
        if len(parts) == 1:
            return self._read_part(packed)
        return in_turn((len(part), self._read_part(part)) for part in parts)

    def _read_part(self, values: PackedValues) -> ReadValues:
        if len(values) >= self.fewest:
            table, is_sure = self.block.read(values)
        else:
            table, is_sure = no_rows(self.columns), np.zeros(len(values), bool)
        if is_sure.all():
            return ReadValues(table)
        alone = self._one_by_one(values, np.flatnonzero(~is_sure).tolist())
        return _in_order(ReadValues(table, np.flatnonzero(is_sure).tolist()), alone, len(values))

    def _one_by_one(self, values: PackedValues, indices: Sequence[int]) -> ReadValues:
        rows, read, unread = [], [], []
        ignored: Counter[str] = Counter()
        for index in indices:
            try:
                row, unknown = self.read_one(values[index])
            except UnreadableValueError as error:
                unread.append(Unread(index, error.field, str(error)))
            else:
                rows.append(row)
                read.append(index)
                ignored.update(unknown)
        if not rows:
            return ReadValues(no_rows(self.columns), read, tuple(unread), ignored)
        columns = [column_of([row.get(column.name) for row in rows], column.type) for column in self.columns]
        return ReadValues(pa.Table.from_arrays(columns, schema=self.columns), read, tuple(unread), ignored)


def _in_order(some: ReadValues, others: ReadValues, count: int) -> ReadValues:
    """Return rows of ``count`` values in order; no value is in both, ``rows`` are given."""
    some_rows, other_rows = np.array(some.rows, np.int64), np.array(others.rows, np.int64)
    table, rows = some.table, some_rows
    if len(other_rows):
        rows = np.concatenate([some_rows, other_rows])
        order = np.argsort(rows)
        table, rows = pa.concat_tables([some.table, others.table]).take(order), rows[order]
    kept = None if len(rows) == count else rows.tolist()
    ignored = Counter(some.ignored) + Counter(others.ignored)
    return ReadValues(table, kept, some.unread + others.unread, ignored)


def in_turn(parts: Iterable[tuple[int, ReadValues]]) -> ReadValues:
    """Join the results of parts with this many values each."""
    tables, rows, unread = list[pa.Table](), list[int](), list[Unread]()
    ignored: Counter[str] = Counter()
    first = 0
    for count, part in parts:
        tables.append(part.table)
        rows += [first + row for row in part.indices]
        unread += [replace(each, index=first + each.index) for each in part.unread]
        ignored.update(part.ignored)
        first += count
    kept = None if len(rows) == first else rows
    return ReadValues(pa.concat_tables(tables), kept, tuple(unread), ignored)
