"""Which rows of an Arrow table belong to which partition of an Iceberg table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema

_ROW = "row"


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """``key`` is None for an unpartitioned table; ``rows`` keep the order they came in."""

    key: PartitionKey | None
    rows: pa.Table

    @property
    def identity(self) -> tuple[object, ...]:
        """Equal for the same partition of every chunk."""
        return () if self.key is None else tuple(field.value for field in self.key.field_values)


def fan_out(rows: pa.Table, spec: PartitionSpec, schema: Schema) -> Iterator[PartitionRows]:
    """Cut rows by partition, in the order in which each partition is first met."""
    if spec.is_unpartitioned():
        yield PartitionRows(None, rows)
        return
    names = [str(position) for position in range(len(spec.fields))]
    values = []
    for field in spec.fields:
        source = _column(rows, schema, field.source_id)
        values.append(field.transform.pyarrow_transform(schema.find_type(field.source_id))(source))
    only = [pc.unique(each) for each in values]
    if all(len(each) == 1 for each in only):
        yield PartitionRows(_key([each[0].as_py() for each in only], spec, schema), rows)
        return
    keys = pa.table([*values, pa.array(range(len(rows)), pa.int64())], names=[*names, _ROW])
    # One thread: only then do the rows of a group keep their order.
    groups = keys.group_by(names, use_threads=False).aggregate([(_ROW, "list")])
    for group in groups.to_pylist():
        key = _key([group[name] for name in names], spec, schema)
        indices = group[f"{_ROW}_list"]
        yield PartitionRows(key, rows.take(pa.array(indices, pa.int64())))


def _key(values: Sequence[Any], spec: PartitionSpec, schema: Schema) -> PartitionKey:
    fields = [PartitionFieldValue(field, value) for field, value in zip(spec.fields, values, strict=True)]
    return PartitionKey(fields, spec, schema)


def _column(rows: pa.Table, schema: Schema, field_id: int) -> pa.Array:
    """Return the column's values as one array; a field inside structs is null where a struct around it is."""
    name = schema.find_column_name(field_id) or ""
    if name in rows.column_names:
        column = rows.column(name)
    else:
        top, *inner = name.split(".")
        column = pc.struct_field(rows.column(top), inner)
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
