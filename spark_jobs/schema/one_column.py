"""All that a schema says as one column, behind the seam of ``writer_schema``: a key beside its value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StructType

from spark_jobs.schema.arrow_schema import arrow_schema
from spark_jobs.schema.nested_arrays import one_array
from spark_jobs.schema.writer_schema import ReadValues, WriterColumns, WriterSchema

OF_KEY = "key/"


@dataclass(frozen=True, slots=True)
class OneColumn:
    """A record is a struct of that name, any other value the column itself; with ``is_struct`` in one."""

    schema: WriterSchema
    name: str
    is_struct: bool = False

    @property
    def columns(self) -> WriterColumns:
        """See ``WriterSchema``; identities begin with ``key/``, so that none is a value's."""
        return _inside(self.schema, self.name, self._is_bare)

    @property
    def _is_bare(self) -> bool:
        return self.schema.columns.is_whole and not self.is_struct

    @property
    def reading(self) -> object:
        """See ``WriterSchema``."""
        return self.schema.reading, self.name, self.is_struct

    def read(self, values: Sequence[bytes]) -> ReadValues:
        """See ``WriterSchema``."""
        read = self.schema.read(values)
        (kind,) = arrow_schema(Schema(*self.columns.struct.fields)).types
        if self._is_bare:
            column = read.table.column(0)
        else:
            parts = read.table.combine_chunks()
            arrays = [one_array(part) for part in parts.columns]
            column = pa.StructArray.from_arrays(arrays, fields=list(kind))
        return ReadValues(pa.table({self.name: column}), read.rows, read.unread, read.ignored)

    def read_plain(self, value: bytes) -> Mapping[str, Any]:
        """See ``WriterSchema``."""
        row = self.schema.read_plain(value)
        return {self.name: next(iter(row.values())) if self._is_bare else row}


@lru_cache(256)
def _inside(schema: WriterSchema, name: str, is_bare: bool) -> WriterColumns:
    columns = schema.columns
    if is_bare:
        (only,) = columns.struct.fields
        field = NestedField(only.field_id, name, only.field_type, required=False, doc=only.doc)
    else:
        top = Schema(*columns.struct.fields).highest_field_id + 1
        field = NestedField(top, name, columns.struct, required=False)
    return WriterColumns(
        StructType(field),
        {key: f"{OF_KEY}{path}" for key, path in columns.identities.items()} | {field.field_id: OF_KEY},
        {key: tuple(f"{OF_KEY}{path}" for path in paths) for key, paths in columns.aliases.items()},
        tuple(f"{name}.{path}" for path in columns.as_text),
    )
