"""Which rows of an Arrow table belong to which partition of an Iceberg table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey, partition_record_value
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from spark_jobs.schema.arrow_schema import one_array

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema

_ROW = "row"
# File systems take names of 255 bytes, object stores keys of 1,024.
_LONGEST_NAME = 128
_DIGEST = 16


class _Key(PartitionKey):
    """A partition's values; PyIceberg's own stumbles over the bucket of a time, and over long values."""

    @cached_property
    def partition(self) -> Record:
        """Return the values as manifests hold them."""
        return Record(
            *(
                partition_record_value(each.field, each.value, self.schema)
                if isinstance(each.field.transform, IdentityTransform)
                else each.value
                for each in self.field_values
            )
        )

    def to_path(self) -> str:
        """Return the folder of its files: for people alone, so long names are cut, and stay different."""
        return "/".join(map(_shortened, super().to_path().split("/")))


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """``key`` is None for an unpartitioned table; ``rows`` keep the order they came in.

    ``identity`` is equal for the same partition of every chunk.
    """

    key: PartitionKey | None
    rows: pa.Table
    identity: tuple[object, ...] = ()


def fan_out(rows: pa.Table, spec: PartitionSpec, schema: Schema) -> Iterator[PartitionRows]:
    """Cut rows by partition, in the order in which each partition is first met."""
    if spec.is_unpartitioned():
        yield PartitionRows(None, rows)
        return
    values = [_transformed(rows, each, schema) for each in spec.fields]
    names = [str(position) for position in range(len(values))]
    keys = pa.table([*map(comparable, values), pa.array(range(len(rows)), pa.int64())], names=[*names, _ROW])
    if all(len(pc.unique(keys.column(name))) == 1 for name in names):
        groups = [{**keys.slice(0, 1).to_pylist()[0], f"{_ROW}_list": None}]
    else:
        # One thread: only then do the rows of a group keep their order.
        groups = keys.group_by(names, use_threads=False).aggregate([(_ROW, "list")]).to_pylist()
    for group in groups:
        indices = group[f"{_ROW}_list"]
        first = 0 if indices is None else indices[0]
        key = _Key(
            [PartitionFieldValue(f, v[first].as_py()) for f, v in zip(spec.fields, values, strict=True)],
            spec,
            schema,
        )
        of_group = rows if indices is None else rows.take(pa.array(indices, pa.int64()))
        yield PartitionRows(key, of_group, tuple(group[name] for name in names))


def different_values(rows: pa.Table, field: PartitionField, schema: Schema) -> int:
    """Return how many partitions the rows have by this field alone."""
    return len(pc.unique(comparable(_transformed(rows, field, schema))))


def comparable(values: pa.Array) -> pa.Array:
    """Return what Arrow groups as Iceberg tells values apart: numbers by their bits, all NaN being one."""
    if isinstance(values, pa.ExtensionArray):
        return values.storage
    if not pa.types.is_floating(values.type):
        return values
    one_nan = pc.if_else(pc.is_nan(values), pa.scalar(np.nan, values.type), values)
    return one_nan.view(pa.int32() if values.type == pa.float32() else pa.int64())


def _transformed(rows: pa.Table, field: PartitionField, schema: Schema) -> pa.Array:
    transform = field.transform.pyarrow_transform(schema.find_type(field.source_id))
    return transform(_column(rows, schema, field.source_id))


def _shortened(name: str) -> str:
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - _DIGEST - 1]}-{hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]}"


def _column(rows: pa.Table, schema: Schema, field_id: int) -> pa.Array:
    """Return the column's values as one array; a field inside structs is null where a struct around it is."""
    name = schema.find_column_name(field_id) or ""
    if name in rows.column_names:
        column = rows.column(name)
    else:
        top, *inner = name.split(".")
        column = pc.struct_field(rows.column(top), inner)
    return one_array(column)
