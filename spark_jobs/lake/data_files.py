"""Written files from and to Iceberg's data files: what the writer closes and what a commit adds."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from spark_jobs.protocol.batch import WrittenFile
from spark_jobs.protocol.errors import fault
from spark_jobs.schema.metadata_columns import IDENTITY

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import PrimitiveType

_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")


@dataclass(frozen=True, slots=True)
class FileBounds:
    """Smallest and largest values among a file's rows; all ends are inclusive."""

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
    """A bound of an ``int`` or a ``long`` column; which of both shows in its width."""
    return int.from_bytes(bound, "little", signed=True)


def bounds_of(table: Table, file: DataFile) -> FileBounds | None:
    """Return a file's bounds; None when its statistics do not cover every row's coordinates."""
    pairs = []
    for name in IDENTITY:
        field_id = table.schema().find_field(name).field_id
        lower, upper = (file.lower_bounds or {}).get(field_id), (file.upper_bounds or {}).get(field_id)
        if lower is None or upper is None or (file.null_value_counts or {}).get(field_id) != 0:
            return None
        pairs.append((whole_number(lower), whole_number(upper)))
    return FileBounds(*pairs)


def to_data_file(written: WrittenFile, metadata: TableMetadata) -> DataFile:
    """Return the data file that was described, for a commit to the table with this metadata.

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
    """Return the data file as far as reading its rows takes, for whatever table it was written."""
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
