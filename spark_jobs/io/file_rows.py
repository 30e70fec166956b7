"""The rows of one data file, batch by batch in their order, with the columns its table has now.

PyIceberg's own scan gathers all batches of a file before it gives the first, and reads a null list of structs
as an empty one: rows that are written again must not change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import _read_all_delete_files

from spark_jobs.io.arrow_schema import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table

BATCH_ROWS = 16_384
_FIELD_ID = b"PARQUET:field_id"


def rows_of_file(
    table: Table, task: FileScanTask, columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Every row that is not deleted, of all columns or those named; columns are matched by field id.

    Raises ``OSError`` when storage fails.
    """
    wanted = arrow_schema(_selected(table.schema(), columns))
    deleted = _deleted_positions(table, task)
    position = 0
    with table.io.new_input(task.file.file_path).open() as stream, pq.ParquetFile(stream) as file:
        there = {_field_id(field): field for field in file.schema_arrow}
        read = [there[_field_id(field)].name for field in wanted if _field_id(field) in there]
        for batch in file.iter_batches(BATCH_ROWS, columns=read):
            rows = _projected(pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema)), wanted)
            kept = ~np.isin(np.arange(position, position + len(batch)), deleted)
            position += len(batch)
            yield rows if kept.all() else rows.filter(pa.array(kept))


def _selected(schema: Schema, columns: Sequence[str] | None) -> Schema:
    return schema if columns is None else schema.select(*columns)


def _deleted_positions(table: Table, task: FileScanTask) -> np.ndarray:
    found = _read_all_delete_files(table.io, [task]).get(task.file.file_path, [])
    return np.concatenate([np.empty(0, dtype=np.int64), *(column.to_numpy() for column in found)])


def _projected(rows: pa.StructArray, wanted: pa.Schema) -> pa.Table:
    struct = _project(rows, pa.struct(list(wanted)))
    return pa.Table.from_arrays(struct.flatten(), schema=wanted)


def _project(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The same values as ``wanted``: fields found by id, those that are not there null, null kept null."""
    if pa.types.is_struct(wanted):
        return _project_struct(array, wanted)
    if pa.types.is_map(wanted):
        entries = array.flatten()
        keys = _project(entries.field(0), wanted.key_type)
        items = _project(entries.field(1), wanted.item_type)
        return pa.MapArray.from_arrays(_offsets(array), keys, items, type=wanted)
    if pa.types.is_list(wanted):
        values = _project(array.flatten(), wanted.value_type)
        return pa.ListArray.from_arrays(_offsets(array), values, type=wanted)
    return array.cast(wanted)


def _project_struct(array: pa.StructArray, wanted: pa.StructType) -> pa.StructArray:
    there = {_field_id(array.type.field(i)): i for i in range(array.type.num_fields)}
    children = [
        _project(array.field(there[_field_id(field)]), field.type)
        if _field_id(field) in there
        else pa.nulls(len(array), field.type)
        for field in wanted
    ]
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=array.is_null())


def _offsets(array: pa.ListArray) -> pa.Array:
    """Where each list begins among the flattened values, null for a null list, and where the last ends."""
    lengths = pc.fill_null(pc.list_value_length(_as_list(array)), 0).to_numpy()
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    is_null = np.concatenate([array.is_null().to_numpy(zero_copy_only=False), [False]])
    return pa.array(ends, pa.int32(), mask=is_null)


def _as_list(array: pa.Array) -> pa.Array:
    if not pa.types.is_map(array.type):
        return array
    return array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))


def _field_id(field: pa.Field) -> int:
    return int((field.metadata or {}).get(_FIELD_ID, -1))
