"""Avro behind the seam of ``spark_jobs.schema.writer_schema``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema

from spark_jobs.avro.block import FEWEST_VALUES, BlockReader
from spark_jobs.avro.columns import columns_of
from spark_jobs.avro.parsing import parse
from spark_jobs.avro.plain import PlainReader
from spark_jobs.schema.arrow_schema import arrow_schema, column_of, no_rows
from spark_jobs.schema.packed_values import PackedValues
from spark_jobs.schema.reading import in_order, read_in_parts
from spark_jobs.schema.writer_schema import (
    ReadValues,
    SchemaText,
    Unread,
    UnreadableValueError,
    WriterColumns,
)

_MOST_SCHEMAS = 256


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """An Avro schema that was read once without fault; a process that gets it reads its text again."""

    source: SchemaText

    @property
    def columns(self) -> WriterColumns:
        """See ``WriterSchema``."""
        return _readers(self.source).columns

    @property
    def reading(self) -> object:
        """See ``WriterSchema``."""
        return _readers(self.source).root

    def read(self, values: Sequence[bytes]) -> ReadValues:
        """See ``WriterSchema``."""
        return _readers(self.source).read(values)

    def read_plain(self, value: bytes) -> Mapping[str, Any]:
        """See ``WriterSchema``."""
        return _readers(self.source).plain.read(value)


def avro_schema(source: SchemaText) -> AvroSchema:
    """Return a schema that values can be read by.

    Raises ``ConfigError``: ``schema-unreadable`` for text that is no Avro schema, ``schema-unsupported`` for
    a schema that no table can be made of.
    """
    _readers(source)
    return AvroSchema(source)


@lru_cache(_MOST_SCHEMAS)
def _readers(source: SchemaText) -> _Readers:
    return _Readers(source)


class _Readers:
    """What is made of a schema once in a process."""

    def __init__(self, source: SchemaText) -> None:
        parsed = parse(source)
        self.root = parsed.root
        self.columns = columns_of(parsed.root)
        self.plain = PlainReader(parsed)
        self._arrow = arrow_schema(Schema(*self.columns.struct.fields))
        self._no_rows = no_rows(self._arrow)
        self._block = BlockReader(parsed.root, self._arrow)

    def read(self, values: Sequence[bytes]) -> ReadValues:
        """Return all at once; those in doubt, or all where they are few, each by itself."""
        return read_in_parts(PackedValues.of(values), self._read_part)

    def _read_part(self, values: PackedValues) -> ReadValues:
        table, is_sure = self._no_rows, np.zeros(len(values), bool)
        if len(values) >= FEWEST_VALUES:
            table, is_sure = self._block.read(values)
            if is_sure.all():
                return ReadValues(table)
        alone = self._one_by_one(values, np.flatnonzero(~is_sure).tolist())
        return in_order(ReadValues(table, np.flatnonzero(is_sure).tolist()), alone, len(values))

    def _one_by_one(self, values: Sequence[bytes], indices: Sequence[int]) -> ReadValues:
        rows, read, unread = [], [], []
        for index in indices:
            try:
                rows.append(self.plain.read(values[index]))
                read.append(index)
            except UnreadableValueError as error:
                unread.append(Unread(index, error.field, str(error)))
        if not rows:
            return ReadValues(self._no_rows, read, tuple(unread))
        columns = [column_of([row.get(column.name) for row in rows], column.type) for column in self._arrow]
        return ReadValues(pa.Table.from_arrays(columns, schema=self._arrow), read, tuple(unread))
