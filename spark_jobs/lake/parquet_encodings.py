"""How a file's columns are encoded: with a dictionary those that repeat, judged by the file's first rows.

Where most values differ a dictionary is built, outgrown and given up, and its part of the column is written
twice. Offsets and times of records differ in every topic. Any reader takes a column without one; integers and
times among them are smaller as the distances between them, which fewer readers take.
"""

from __future__ import annotations

import io
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.config.parquet_codecs import Encoding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DICTIONARY_BYTES = "write.parquet.dict-size-bytes"
# A column that repeats itself is found out within this much; one that does not stops costing sooner.
DEFAULT_DICTIONARY_BYTES = "524288"
# Counting costs as much as writing does, so only so many rows are looked at.
SAMPLE_ROWS = 5_000
# Of numbers and times half: without a dictionary they are eight bytes at most. Strings of which one value in
# twenty repeats among so few are of some 50,000, which outgrow the dictionary; fewer are worth one.
_DISTINCT_SHARE, _DISTINCT_SHARE_OF_BYTES = 0.5, 0.95


def encodings(rows: pa.Table, properties: Mapping[str, str], encoding: Encoding) -> dict[str, Any]:
    """Return what PyArrow's writer is to be told for a file that begins with these rows.

    All columns have a dictionary but those of which most values are distinct, inside of structs too; what
    lies inside of lists and maps keeps its own. A table with a dictionary size of its own has chosen: all
    that may have one.
    """
    is_compact = encoding is Encoding.COMPACT
    has_chosen = properties.get(DICTIONARY_BYTES, DEFAULT_DICTIONARY_BYTES) != DEFAULT_DICTIONARY_BYTES
    if has_chosen and not is_compact:
        return {"use_dictionary": True}
    sample = rows.slice(0, SAMPLE_ROWS)
    leaves = chain.from_iterable(map(_leaves, sample.column_names, sample.columns))
    distinct = {path: column.type for path, column in leaves if _is_mostly_distinct(column)}
    deltas = [path for path, kind in distinct.items() if is_compact and _has_distances(kind)]
    plain = {*deltas} if has_chosen else distinct.keys()
    return {
        "use_dictionary": [path for path in _leaf_paths(rows.schema) if path not in plain],
        "column_encoding": dict.fromkeys(deltas, "DELTA_BINARY_PACKED"),
    }


def _has_distances(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_temporal(kind))


def _leaves(path: str, column: pa.ChunkedArray) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Yield the column, or what is in its structs, by its path in the file."""
    if not pa.types.is_struct(column.type):
        yield path, column
        return
    for field, inside in zip(column.type, column.flatten(), strict=True):
        yield from _leaves(f"{path}.{field.name}", inside)


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
