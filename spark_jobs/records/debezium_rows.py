"""Rows by the schema beside them, behind the seam of ``spark_jobs.schema.writer_schema``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema

from spark_jobs.config.new_fields import Growth, NewFields
from spark_jobs.debezium.block import made, written_type
from spark_jobs.debezium.columns import columns_of
from spark_jobs.debezium.plain import PlainRows
from spark_jobs.debezium.row_types import Record, row_type
from spark_jobs.records.json import decode_chunk
from spark_jobs.records.projection import one_array
from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.packed_values import PackedValues
from spark_jobs.schema.reading import BlockFirst
from spark_jobs.schema.told import Forms
from spark_jobs.schema.writer_schema import ReadValues, WriterColumns

_MOST_SCHEMAS = 64
_FEWEST_VALUES = 20
_GROWTH = Growth(NewFields.DEAD_LETTER, is_by_schema=True)
_GROWTH_OF_KEYS = replace(_GROWTH, new_fields=NewFields.IGNORE)


@dataclass(frozen=True, slots=True)
class RowSchema:
    """The rows of an envelope's schema, or of their own; ``is_whole``: they are more than a key."""

    text: str
    is_whole: bool = True
    is_enveloped: bool = True
    told: Forms = ()

    @property
    def columns(self) -> WriterColumns:
        """See ``WriterSchema``."""
        return _readers(self).columns

    @property
    def reading(self) -> object:
        """See ``WriterSchema``."""
        return self

    def read(self, values: Sequence[bytes]) -> ReadValues:
        """See ``WriterSchema``."""
        return _readers(self).read(values)

    def read_plain(self, value: bytes) -> Mapping[str, Any]:
        """See ``WriterSchema``."""
        return _readers(self).plain.read(value)


@lru_cache(_MOST_SCHEMAS)
def _readers(schema: RowSchema) -> _Readers:
    return _Readers(schema)


class _Readers:
    """What is made of a schema once in a process; raises as ``row_type`` and ``columns_of``."""

    def __init__(self, schema: RowSchema) -> None:
        row = row_type(schema.text, is_enveloped=schema.is_enveloped, told=schema.told)
        self.columns = columns_of(row)
        self.plain = PlainRows(row, is_whole=schema.is_whole)
        arrow = arrow_schema(Schema(*self.columns.struct.fields))
        block = _Block(row, arrow, is_whole=schema.is_whole)
        self.read = BlockFirst(block, _FEWEST_VALUES, lambda value: (self.plain.read(value), {}), arrow).read


class _Block:
    """Many rows at once: by JSON's decoder as they are written, then column by column."""

    def __init__(self, row: Record, columns: pa.Schema, *, is_whole: bool) -> None:
        self._row = row
        self._growth = _GROWTH if is_whole else _GROWTH_OF_KEYS
        self._columns = columns
        self._written = pa.schema([(field.name, written_type(field.type)) for field in row.fields])
        self._required = [field.name for field in row.fields if is_whole and not field.may_be_null]

    def read(self, values: PackedValues) -> tuple[pa.Table, np.ndarray]:
        """See ``Block``."""
        decoded = decode_chunk(list(values), self._written, self._growth)
        unsure = np.zeros(decoded.table.num_rows, bool)
        arrays = []
        for field, column in zip(self._row.fields, self._columns, strict=True):
            array, of_column = made(one_array(decoded.table.column(field.name)), field.type, column.type)
            arrays.append(array)
            unsure |= of_column
        for name in self._required:
            unsure |= one_array(decoded.table.column(name)).is_null().to_numpy(zero_copy_only=False)
        is_sure = np.zeros(len(values), bool)
        is_sure[np.asarray(decoded.indices, np.int64)] = ~unsure
        table = pa.Table.from_arrays(arrays, schema=self._columns)
        return table if not unsure.any() else table.filter(pa.array(~unsure)), is_sure
