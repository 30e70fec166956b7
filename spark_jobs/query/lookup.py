"""Finds the rows of a record key in the hot tail and in the lake, without SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import RESTError
from pyiceberg.expressions import EqualTo, Reference
from pyiceberg.types import BinaryType

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.connections.connect import Connections
from spark_jobs.formats.connect.documents import Documents
from spark_jobs.hot.prefix import Prefix, load_seam
from spark_jobs.hot.segment import print_of
from spark_jobs.lake.file_rows import stream
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.errors import fault
from spark_jobs.query.query import MEMORY_BYTES, ROWS_A_BATCH, Answer, files_away
from spark_jobs.records.layouts.changes import spelling_of
from spark_jobs.schema.iceberg_types import GENERATION, KEY, OFFSET, ROW_ID, TIMESTAMP

_NEWEST_FIRST = [(name, "descending", "at_end") for name in (GENERATION, TIMESTAMP, OFFSET)]


def newest_of_key(
    pipeline: PipelineConfig,
    connections: Connections,
    key: str,
    *,
    prefix: Prefix | None = None,
    memory_bytes: int = MEMORY_BYTES,
    is_over: Callable[[], bool] = lambda: False,
) -> Answer:
    """Return all rows of the key, by generation, Kafka's time and offset, newest first.

    They are from the current table, or from a ``prefix``, lake and hot. It stops once ``is_over``. Raises as
    ``query``; rows that exceed ``memory_bytes`` are ``query-too-large``.
    """
    prefix = prefix or Prefix(load_seam(pipeline, connections), (), 0)
    columns = prefix.seam.columns
    for name in (KEY, GENERATION, TIMESTAMP, OFFSET):
        if name not in columns.names:  # another tool took or renamed it
            raise fault("query-refused.column", name=name, **pipeline.where)
    schema, taken = answer_schema(columns), 0
    every: list[pa.Table] = []
    try:
        for rows in pipeline.layout.rows_of_key(prefix, pipeline, key):
            every.append(as_answered(rows, schema))
            taken += every[-1].nbytes
            if taken > memory_bytes:
                why = f"the rows of the key take more than {memory_bytes:,} bytes"
                raise fault("query-too-large", why=why, pipeline=pipeline.name)
            if is_over():
                break
    except (OSError, pa.ArrowException, RESTError) as error:
        raise files_away(error, pipeline) from error
    if is_over():
        raise fault("query-timeout", pipeline=pipeline.name)
    found = pa.concat_tables(every or [schema.empty_table()])
    found = found.take(pc.sort_indices(found, _NEWEST_FIRST))
    return Answer(schema, iter(found.to_batches(ROWS_A_BATCH)))


def row_of_spelling(prefix: Prefix, pipeline: PipelineConfig, key: str) -> Iterator[pa.Table]:
    """Yield the row of a key in any spelling; the mirror has it in one."""
    table = prefix.seam.table
    spelling = replace(spelling_of(pipeline, progress_of(table).cdc), is_compared=False)
    wanted = spelling.read(Documents(), key.encode()).text
    scan = table.scan(EqualTo(Reference(ROW_ID), wanted))  # type: ignore[arg-type, call-arg]
    for batch in stream(scan, prefix.seam.columns):
        yield pa.Table.from_batches([batch])


def rows_of_text(prefix: Prefix, _pipeline: PipelineConfig, key: str) -> Iterator[pa.Table]:
    """Yield the rows whose record has this key."""
    table = prefix.seam.table
    is_binary = isinstance(table.schema().find_field(KEY).field_type, BinaryType)
    wanted = key.encode() if is_binary else key
    its_print = print_of(wanted)
    for segment in chain.from_iterable(share.segments for share in prefix.shares):
        if (rows := segment.rows_of_key(wanted, its_print)) is not None:
            yield rows
    scan = table.scan(prefix.lake_filter).filter(EqualTo(Reference(KEY), wanted))  # type: ignore[arg-type, call-arg]
    for batch in stream(scan, prefix.seam.columns):
        yield pa.Table.from_batches([batch])


# Rows of a table in the types that DuckDB answers with, for answers that it had no part in.


def answer_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of an answer with these columns of a table."""
    return pa.schema([pa.field(field.name, _in_schema(field.type)) for field in schema])


def as_answered(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows in the schema of an answer."""
    return pa.Table.from_arrays([_column(rows.column(f.name), f.type) for f in schema], schema=schema)


def _in_schema(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind) or kind == pa.uuid():
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("l", _in_schema(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _in_schema(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_in_schema(kind.key_type), _in_schema(kind.item_type))
    return kind


def _column(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    if "arrow.uuid" not in str(column.type):
        return column.cast(kind)
    # Arrow would take a UUID's bytes for its text.
    return pa.chunked_array([pa.array(map(_plain, column.to_pylist()), kind)])


def _plain(value: Any) -> Any:
    match value:
        case UUID():
            return str(value)
        case list() | tuple():
            return type(value)(map(_plain, value))
        case dict():
            return {name: _plain(inner) for name, inner in value.items()}
    return value
