"""Partitions rows of a table, and converts written files to and from Iceberg's data files."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionFieldValue, PartitionKey, partition_record_value
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from spark_jobs.protocol.batch import WrittenFile
from spark_jobs.protocol.errors import fault
from spark_jobs.schema.arrow_schema import one_array
from spark_jobs.schema.iceberg_types import IDENTITY

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import PrimitiveType


_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")


@dataclass(frozen=True, slots=True)
class FileBounds:
    """Smallest and largest values of a file's rows; all ends are inclusive."""

    generation: tuple[int, int]
    partition: tuple[int, int]
    offset: tuple[int, int]


def to_written_file(data_file: DataFile, metadata: TableMetadata) -> WrittenFile:
    """Describe a data file of a table; ``metadata`` gives the partition spec's types."""
    types = _partition_types(metadata, data_file.spec_id)
    values = [data_file.partition[position] for position in range(len(types))]
    offsets = data_file.split_offsets
    return WrittenFile(
        path=data_file.file_path,
        spec_id=data_file.spec_id,
        partition=tuple(
            None if value is None else _encode(to_bytes(kind, value))
            for kind, value in zip(types, values, strict=True)
        ),
        rows=data_file.record_count,
        bytes=data_file.file_size_in_bytes,
        split_offsets=None if offsets is None else tuple(offsets),
        **{name: dict(getattr(data_file, name) or {}) for name in _COUNTS},
        lower_bounds=_encode_all(data_file.lower_bounds),
        upper_bounds=_encode_all(data_file.upper_bounds),
    )


def whole_number(bound: bytes) -> int:
    """A bound of an ``int`` or ``long`` column; its width shows which of both."""
    return int.from_bytes(bound, "little", signed=True)


def bounds_of(table: Table, file: DataFile) -> FileBounds | None:
    """Return a file's bounds; None if its statistics do not cover every row's coordinates."""
    pairs = []
    for name in IDENTITY:
        field_id = table.schema().find_field(name).field_id
        lower, upper = (file.lower_bounds or {}).get(field_id), (file.upper_bounds or {}).get(field_id)
        if lower is None or upper is None or (file.null_value_counts or {}).get(field_id) != 0:
            return None
        pairs.append((whole_number(lower), whole_number(upper)))
    return FileBounds(*pairs)


def to_data_file(written: WrittenFile, metadata: TableMetadata) -> DataFile:
    """Return the described data file, for a commit to the table with this metadata.

    Raises ``SourceChanged`` when the table's partitioning is no longer the one the file was written for.
    """
    if written.spec_id != metadata.default_spec_id:
        raise fault("partitioning-changed", file=written.path)
    data_file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=written.path,
        file_format=FileFormat.PARQUET,
        partition=_partition_of(written, metadata),
        record_count=written.rows,
        file_size_in_bytes=written.bytes,
        split_offsets=None if written.split_offsets is None else list(written.split_offsets),
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        **{name: getattr(written, name) for name in _COUNTS},
        lower_bounds=_decode_all(written.lower_bounds),
        upper_bounds=_decode_all(written.upper_bounds),
    )
    data_file.spec_id = written.spec_id
    return data_file


def to_scanned_file(written: WrittenFile) -> DataFile:
    """Return the data file with the properties needed to read its rows, for any table."""
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=written.path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=written.rows,
        file_size_in_bytes=written.bytes,
    )


def partition_path(written: WrittenFile, metadata: TableMetadata) -> str:
    """Return the file's partition as ``field=value/...``; empty for a table without partitions."""
    spec = metadata.specs()[written.spec_id]
    return spec.partition_to_path(_partition_of(written, metadata), metadata.schema())


def _partition_of(written: WrittenFile, metadata: TableMetadata) -> Record:
    types = _partition_types(metadata, written.spec_id)
    values = (
        None if text is None else from_bytes(kind, base64.b64decode(text))
        for kind, text in zip(types, written.partition, strict=True)
    )
    return Record(*values)


def _partition_types(metadata: TableMetadata, spec_id: int) -> list[PrimitiveType]:
    struct = metadata.specs()[spec_id].partition_type(metadata.schema())
    return [field.field_type for field in struct.fields]  # type: ignore[misc]  # partition values are primitive


def _encode(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _encode_all(bounds: Mapping[int, bytes] | None) -> dict[int, str]:
    return {field_id: _encode(bound) for field_id, bound in (bounds or {}).items()}


def _decode_all(bounds: Mapping[int, str]) -> dict[int, bytes]:
    return {field_id: base64.b64decode(text) for field_id, text in bounds.items()}


# Which rows of an Arrow table belong to which partition of an Iceberg table.


_ROW = "row"
# File systems take names of 255 bytes, object stores keys of 1,024.
_LONGEST_NAME = 128
_DIGEST = 16


class _Key(PartitionKey):
    """A partition's values; PyIceberg's class fails on buckets of times and on long values."""

    @cached_property
    def partition(self) -> Record:
        """Return the values as manifests contain them."""
        return Record(
            *(
                partition_record_value(each.field, each.value, self.schema)
                if isinstance(each.field.transform, IdentityTransform)
                else each.value
                for each in self.field_values
            )
        )

    def to_path(self) -> str:
        """Return the folder of its files, for people: long names are shortened but stay unique."""
        return "/".join(map(_shortened, super().to_path().split("/")))


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """Rows of a partition; ``key`` is None for an unpartitioned table; ``rows`` keep their order.

    ``identity`` is equal for the same partition of every chunk.
    """

    key: PartitionKey | None
    rows: pa.Table
    identity: tuple[object, ...] = ()


def fan_out(rows: pa.Table, spec: PartitionSpec, schema: Schema) -> Iterator[PartitionRows]:
    """Split rows by partition, in order of first appearance."""
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
    """Return the number of partitions that this field alone gives."""
    return len(pc.unique(comparable(_transformed(rows, field, schema))))


def comparable(values: pa.Array) -> pa.Array:
    """Return values such that Arrow groups them as Iceberg does: numbers by bits, all NaN equal."""
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
    """Return the column as one array; a field in structs is null if an enclosing struct is."""
    name = schema.find_column_name(field_id) or ""
    if name in rows.column_names:
        column = rows.column(name)
    else:
        top, *inner = name.split(".")
        column = pc.struct_field(rows.column(top), inner)
    return one_array(column)
