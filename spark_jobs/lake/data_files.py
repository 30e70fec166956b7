"""Descriptions of data files as JSON: what tasks hand to the driver, and what the log and properties keep.

Bounds and partition values travel as base64 of Iceberg's single-value serialisation, so every type comes
back exactly.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from spark_jobs.protocol.errors import SourceChanged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import PrimitiveType

_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")


def to_json(data_file: DataFile, metadata: TableMetadata) -> dict[str, Any]:
    """Describe a data file of a table; ``metadata`` gives the partition spec's types."""
    types = _partition_types(metadata, data_file.spec_id)
    values = [data_file.partition[position] for position in range(len(types))]
    return {
        "path": data_file.file_path,
        "spec_id": data_file.spec_id,
        "partition": [_pack(kind, value) for kind, value in zip(types, values, strict=True)],
        "rows": data_file.record_count,
        "bytes": data_file.file_size_in_bytes,
        "split_offsets": data_file.split_offsets,
        **{name: _text_keys(getattr(data_file, name)) for name in _COUNTS},
        **{
            name: {k: _encode(v) for k, v in _text_keys(getattr(data_file, name)).items()} for name in _BOUNDS
        },
    }


def whole_number(bound: bytes) -> int:
    """A bound of an ``int`` or a ``long`` column; which of both shows in its width."""
    return int.from_bytes(bound, "little", signed=True)


def from_json(value: Mapping[str, Any], metadata: TableMetadata) -> DataFile:
    """Read ``to_json`` back, for a commit to the table with this metadata.

    Raises ``SourceChanged`` when the table's partitioning is no longer the one the file was written for.
    """
    if value["spec_id"] != metadata.default_spec_id:
        raise SourceChanged(
            "the table's partitioning was changed while files were being written for the earlier one",
            code="partitioning-changed",
            hint="Set the earlier partition spec again, let the pending batch land, then change it.",
            file=value["path"],
        )
    types = _partition_types(metadata, value["spec_id"])
    maps: dict[str, Any] = {name: _number_keys(value[name]) for name in _COUNTS}
    for name in _BOUNDS:
        maps[name] = {k: _decode(v) for k, v in _number_keys(value[name]).items()}
    data_file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=value["path"],
        file_format=FileFormat.PARQUET,
        partition=Record(
            *[_unpack(kind, text) for kind, text in zip(types, value["partition"], strict=True)]
        ),
        record_count=value["rows"],
        file_size_in_bytes=value["bytes"],
        split_offsets=value["split_offsets"],
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        **maps,
    )
    data_file.spec_id = value["spec_id"]
    return data_file


def partition_path(value: Mapping[str, Any], metadata: TableMetadata) -> str:
    """The file's partition as ``field=value/...``; empty for a table without partitions."""
    types = _partition_types(metadata, value["spec_id"])
    record = Record(*[_unpack(kind, text) for kind, text in zip(types, value["partition"], strict=True)])
    return metadata.specs()[value["spec_id"]].partition_to_path(record, metadata.schema())


def normalise_path(path: str) -> str:
    """One spelling of a file's address: Iceberg-Java writes ``file:/x`` where PyIceberg writes ``file:///x``."""
    for prefix in ("file://", "file:"):
        if path.startswith(prefix):
            return path.removeprefix(prefix)
    return path


def _partition_types(metadata: TableMetadata, spec_id: int) -> list[PrimitiveType]:
    struct = metadata.specs()[spec_id].partition_type(metadata.schema())
    return [field.field_type for field in struct.fields]  # type: ignore[misc]  # partition values are primitive


def _pack(kind: PrimitiveType, value: Any) -> str | None:
    return None if value is None else _encode(to_bytes(kind, value))


def _unpack(kind: PrimitiveType, text: str | None) -> Any:
    return None if text is None else from_bytes(kind, _decode(text))


def _encode(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _decode(text: str) -> bytes:
    return base64.b64decode(text)


def _text_keys(values: Mapping[int, Any] | None) -> dict[str, Any]:
    return {str(field_id): value for field_id, value in (values or {}).items()}


def _number_keys(values: Mapping[str, Any]) -> dict[int, Any]:
    return {int(field_id): value for field_id, value in values.items()}
