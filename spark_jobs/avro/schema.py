"""Avro behind the seam of ``spark_jobs.schema.writer_schema``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

from spark_jobs.avro.block import FEWEST_VALUES, BlockReader
from spark_jobs.avro.columns import columns_of
from spark_jobs.avro.parsing import parse
from spark_jobs.avro.plain import PlainReader
from spark_jobs.schema.arrow_schema import arrow_schema, column_of, no_rows
from spark_jobs.schema.writer_schema import (
    ReadValues,
    SchemaText,
    Unread,
    UnreadableValueError,
    WriterColumns,
)

_BLOCK_VALUES = 250
_MOST_SCHEMAS = 256


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """An Avro schema that was read once without fault; a process that gets it reads its text again."""

    source: SchemaText

    @property
    def columns(self) -> WriterColumns:
        """See ``WriterSchema``."""
        return _readers(self.source).columns

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
        self.columns = columns_of(parsed.root)
        self.plain = PlainReader(parsed)
        self._arrow = arrow_schema(Schema(*self.columns.struct.fields))
        self._block = BlockReader(parsed.root, self._arrow)

    def read(self, values: Sequence[bytes]) -> ReadValues:
        """Return all at once; else in blocks, each of which is read value by value when it is in doubt."""
        if (table := self._at_once(values)) is not None:
            return ReadValues(table)
        tables: list[pa.Table] = [no_rows(self._arrow)]
        unread: list[Unread] = []
        for start in range(0, len(values), _BLOCK_VALUES):
            block = values[start : start + _BLOCK_VALUES]
            table = self._at_once(block) if len(block) < len(values) else None
            tables.append(self._one_by_one(block, start, unread) if table is None else table)
        bad = {each.index for each in unread}
        rows = [index for index in range(len(values)) if index not in bad] if bad else None
        return ReadValues(pa.concat_tables(tables), rows, tuple(unread))

    def _at_once(self, values: Sequence[bytes]) -> pa.Table | None:
        return self._block.read(values) if len(values) >= FEWEST_VALUES else None

    def _one_by_one(self, values: Sequence[bytes], start: int, unread: list[Unread]) -> pa.Table:
        rows = []
        for index, value in enumerate(values, start):
            try:
                rows.append(self.plain.read(value))
            except UnreadableValueError as error:
                unread.append(Unread(index, error.field, str(error)))
        columns = [column_of([row.get(column.name) for row in rows], column.type) for column in self._arrow]
        return pa.Table.from_arrays(columns, schema=self._arrow)
