"""Delete files as other engines write them: by position, and by equality, which PyIceberg cannot read."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestWriterV2
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record
from pyiceberg.types import LongType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import ManifestWriter
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table
    from pyiceberg.typedef import TableVersion

# Lets the commit pass for one of ours: what is tested here comes after the anchor's check.
AS_OURS = {"sluice.test": "deletes"}
_PATH_ID, _POSITION_ID = 2147483546, 2147483545


def delete_by_position(table: Table, path: str, positions: Sequence[int]) -> None:
    """Commit a position-delete file for rows of one data file; the table must have no partitions."""
    schema = pa.schema([_field("file_path", pa.string(), _PATH_ID), _field("pos", pa.int64(), _POSITION_ID)])
    rows = pa.table({"file_path": [path] * len(positions), "pos": list(positions)}, schema=schema)
    _commit(table, rows, DataFileContent.POSITION_DELETES)


def delete_by_equality(table: Table, column: str, values: Sequence[int]) -> None:
    """Commit an equality-delete file for the long ``column``, with bounds; for tables without partitions."""
    field_id = table.schema().find_field(column).field_id
    rows = pa.table({column: list(values)}, schema=pa.schema([_field(column, pa.int64(), field_id)]))
    _commit(
        table,
        rows,
        DataFileContent.EQUALITY_DELETES,
        equality_ids=[field_id],
        value_counts={field_id: len(values)},
        null_value_counts={field_id: 0},
        lower_bounds={field_id: to_bytes(LongType(), min(values))},
        upper_bounds={field_id: to_bytes(LongType(), max(values))},
    )


def _commit(table: Table, rows: pa.Table, content: DataFileContent, **more: Any) -> None:
    path = f"{table.location()}/data/{uuid.uuid4().hex}-deletes.parquet"
    with table.io.new_output(path).create() as stream:
        pq.write_table(rows, stream)
    file = DataFile.from_args(
        content=content,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows.num_rows,
        file_size_in_bytes=len(table.io.new_input(path)),
        **more,
    )
    file.spec_id = table.metadata.default_spec_id
    with (
        table.transaction() as transaction,
        _RowDelta(Operation.DELETE, transaction, table.io, snapshot_properties=AS_OURS) as delta,
    ):
        delta.append_data_file(file)


def _field(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, nullable=False, metadata={"PARQUET:field_id": str(field_id)})


class _DeletesWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}

    def _with_partition(self, format_version: TableVersion) -> Schema:
        """PyIceberg calls the field ids of equality deletes longs; the specification and Java say int."""
        written = super()._with_partition(format_version).model_dump_json()
        is_long = '"element-id":136,"element":"long"'
        assert is_long in written
        return Schema.model_validate_json(written.replace(is_long, is_long.replace("long", "int")))


class _RowDelta(_FastAppendFiles):
    def new_manifest_writer(self, spec: PartitionSpec) -> ManifestWriter:
        output = self.new_manifest_output()
        return _DeletesWriter(spec, self.schema(), output, self.snapshot_id, self._compression)
