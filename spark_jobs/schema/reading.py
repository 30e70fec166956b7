"""Values read as a block where it is sure of them, and alone where not; in parts that stay small."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from spark_jobs.schema.arrow_schema import column_of, no_rows
from spark_jobs.schema.packed_values import PackedValues
from spark_jobs.schema.writer_schema import ReadValues, Unread, UnreadableValueError, WriterColumns

_MOST_BYTES_AT_ONCE = 2 << 20


class Block(Protocol):
    """A format's reader of many values at once."""

    def read(self, values: PackedValues) -> tuple[pa.Table, np.ndarray]:
        """Return rows of the values that it is sure of, and of each value whether it is."""
        ...


@dataclass(frozen=True, slots=True)
class Readers:
    """What is made of a schema once in a process."""

    columns: WriterColumns
    read: Callable[[Sequence[bytes]], ReadValues]
    read_plain: Callable[[bytes], Mapping[str, Any]]


class MadeOnce(ABC):
    """A ``WriterSchema`` that is text, and does what its ``readers`` do."""

    @property
    @abstractmethod
    def readers(self) -> Readers:
        """Return what was made of it."""

    @property
    def columns(self) -> WriterColumns:
        """See ``WriterSchema``."""
        return self.readers.columns

    @property
    def reading(self) -> object:
        """See ``WriterSchema``."""
        return self

    def read(self, values: Sequence[bytes]) -> ReadValues:
        """See ``WriterSchema``."""
        return self.readers.read(values)

    def read_plain(self, value: bytes) -> Mapping[str, Any]:
        """See ``WriterSchema``."""
        return self.readers.read_plain(value)


@dataclass(frozen=True, slots=True)
class BlockFirst:
    """Reads values as a block; those in doubt, or all where they are fewer than ``fewest``, each by itself.

    ``read_one`` gives a row, and how often it ignored which field, or raises ``UnreadableValueError``.
    """

    block: Block
    fewest: int
    read_one: Callable[[bytes], tuple[Mapping[str, Any], Mapping[str, int]]]
    columns: pa.Schema

    def read(self, values: Sequence[bytes]) -> ReadValues:
        """Return all of them read."""
        return read_in_parts(PackedValues.of(values), self._read_part)

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
    """Return rows of the same ``count`` values in their order; no value is in both, ``rows`` are given."""
    some_rows, other_rows = np.array(some.rows, np.int64), np.array(others.rows, np.int64)
    table, rows = some.table, some_rows
    if len(other_rows):
        rows = np.concatenate([some_rows, other_rows])
        order = np.argsort(rows)
        table, rows = pa.concat_tables([some.table, others.table]).take(order), rows[order]
    kept = None if len(rows) == count else rows.tolist()
    ignored = Counter(some.ignored) + Counter(others.ignored)
    return ReadValues(table, kept, some.unread + others.unread, ignored)


def read_in_parts(values: PackedValues, read: Callable[[PackedValues], ReadValues]) -> ReadValues:
    """Return all of them read: not at once where they are many bytes, as items of one byte take fifty."""
    parts = list(values.parts(_MOST_BYTES_AT_ONCE))
    if len(parts) == 1:
        return read(values)
    tables: list[pa.Table] = []
    rows: list[int] = []
    unread: list[Unread] = []
    ignored: Counter[str] = Counter()
    first = 0
    for part in parts:
        made = read(part)
        tables.append(made.table)
        rows += [first + row for row in (range(len(part)) if made.rows is None else made.rows)]
        unread += [replace(each, index=first + each.index) for each in made.unread]
        ignored.update(made.ignored)
        first += len(part)
    kept = None if len(rows) == len(values) else rows
    return ReadValues(pa.concat_tables(tables), kept, tuple(unread), ignored)
