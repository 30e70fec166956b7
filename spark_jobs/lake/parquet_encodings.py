"""Which columns of a file are worth a dictionary: those that repeat, judged by the file's first rows.

Where most values differ a dictionary is built, outgrown and given up, and its part of the column is written
twice. Offsets and times of records differ in every topic. Any reader takes a column without one.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Mapping

DICTIONARY_BYTES = "write.parquet.dict-size-bytes"
# A column that repeats itself is found out within this much; one that does not stops costing sooner.
DEFAULT_DICTIONARY_BYTES = "524288"
# Counting costs as much as writing does, so only so many rows are looked at.
_SAMPLE_ROWS = 5_000
# Of numbers and times half: without a dictionary they are eight bytes at most. Strings of which one value in
# twenty repeats among so few are of some 50,000, which outgrow the dictionary; fewer are worth one.
_DISTINCT_SHARE, _DISTINCT_SHARE_OF_BYTES = 0.5, 0.95


def dictionary_columns(rows: pa.Table, properties: Mapping[str, str]) -> list[str] | bool:
    """Return the Parquet paths of columns to write with a dictionary; True is all, as PyArrow takes it.

    All but those of which most values of the first rows are distinct; what lies inside of structs, lists and
    maps keeps its dictionary. A table with a dictionary size of its own has chosen: all.
    """
    if properties.get(DICTIONARY_BYTES, DEFAULT_DICTIONARY_BYTES) != DEFAULT_DICTIONARY_BYTES:
        return True
    sample = rows.slice(0, _SAMPLE_ROWS)
    distinct = {name for name in rows.column_names if _is_mostly_distinct(sample.column(name))}
    return [path for path in _leaf_paths(rows.schema) if path not in distinct]


def _is_mostly_distinct(column: pa.ChunkedArray) -> bool:
    if pa.types.is_nested(column.type):
        return False
    if isinstance(column.type, pa.BaseExtensionType):  # a UUID, which Arrow does not count
        column = column.cast(column.type.storage_type)
    share = _DISTINCT_SHARE if pa.types.is_primitive(column.type) else _DISTINCT_SHARE_OF_BYTES
    return bool(pc.count_distinct(column).as_py() > share * (len(column) - column.null_count))


def _leaf_paths(schema: pa.Schema) -> list[str]:
    footer = io.BytesIO()
    pq.write_metadata(schema, footer)
    columns = pq.ParquetFile(footer).schema
    return [columns.column(index).path for index in range(len(columns))]
