"""Rows with their schema next to them, as an implementation of ``spark_jobs.schema.writer_schema``."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from spark_jobs.config.columns import Growth, NewFields
from spark_jobs.formats import tree
from spark_jobs.formats.connect.block import made, written_type
from spark_jobs.formats.connect.plain import PlainRows
from spark_jobs.formats.connect.types import Field, Kind, Leaf, Type, row_type
from spark_jobs.formats.json.block import decode_chunk
from spark_jobs.formats.lanes.packed_values import PackedValues, ParsedOnce, Readers
from spark_jobs.formats.tree import Record
from spark_jobs.schema.arrow_schema import one_array
from spark_jobs.schema.writer_schema import Forms

_FEWEST_VALUES = 20
_GROWTH = Growth(NewFields.DEAD_LETTER, is_by_schema=True)
_GROWTH_OF_KEYS = replace(_GROWTH, new_fields=NewFields.IGNORE)
_HINT = "Rename the column at its source, or leave it out at the connector (`column.exclude.list`)."


@dataclass(frozen=True, slots=True)
class RowSchema(ParsedOnce):
    """The row type of an envelope's schema or of a row schema; ``is_whole`` means more than a key."""

    text: str
    is_whole: bool = True
    is_enveloped: bool = True
    forms: Forms = ()

    def readers(self) -> Readers:
        """See ``ParsedOnce``; raises as ``row_type`` and ``tree.columns_of``."""
        row = row_type(self.text, is_enveloped=self.is_enveloped, forms=self.forms)
        plain = PlainRows(row, is_whole=self.is_whole)
        return Readers.block_first(
            tree.columns_of(row.fields, _column, _HINT, are_names_free=True),
            lambda arrow: _Block(row, arrow, is_whole=self.is_whole),
            _FEWEST_VALUES,
            lambda value: (plain.read(value), {}),
        )


def _column(kind: Type) -> str | Type:
    if not isinstance(kind, Leaf):
        return kind
    if kind.kind is Kind.DECIMAL:
        return f"decimal({kind.precision}, {kind.scale})"
    return "string" if kind.kind.endswith("as text") else kind.kind


class _Block:
    """Reads many rows at once: the JSON decoder parses them, then each column is converted."""

    def __init__(self, row: Record[Field], columns: pa.Schema, *, is_whole: bool) -> None:
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
