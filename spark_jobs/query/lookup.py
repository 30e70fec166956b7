"""The rows of a record key, looked for in Kafka's part and in the lake: no SQL, and no engine for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.exceptions import RESTError
from pyiceberg.expressions import EqualTo, Reference
from pyiceberg.types import BinaryType

from spark_jobs.config.settings import PipelineConfig
from spark_jobs.debezium.documents import Documents
from spark_jobs.hot.key_prints import print_of
from spark_jobs.hot.prefix import Prefix
from spark_jobs.hot.seam import load_seam
from spark_jobs.lake.file_rows import stream
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.query.answered_columns import answered_schema, as_answered
from spark_jobs.query.ended import files_away, out_of_memory, out_of_time
from spark_jobs.query.engine import MEMORY_BYTES
from spark_jobs.query.query import ROWS_A_BATCH, Answer
from spark_jobs.records.formats import spelling_of
from spark_jobs.schema.change_columns import ROW_ID
from spark_jobs.schema.metadata_columns import GENERATION, KEY, OFFSET, TIMESTAMP

if TYPE_CHECKING:
    from spark_jobs.connections.connect import Connections

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
    """Return all rows of the key, by generation, Kafka's time and offset, the newest first.

    They are the table's as it is now, or those of a ``prefix``, lake and hot. Once ``is_over`` it breaks off.
    Raises as ``query``; more rows than ``memory_bytes`` hold are ``query-too-large``.
    """
    prefix = prefix or Prefix(load_seam(pipeline, connections), (), 0)
    _check_columns(prefix.seam.columns, pipeline)
    schema, taken = answered_schema(prefix.seam.columns), 0
    every: list[pa.Table] = []
    try:
        for rows in _of_mirror(prefix, pipeline, key) if pipeline.is_mirror else _rows_of(prefix, key):
            every.append(as_answered(rows, schema))
            taken += every[-1].nbytes
            if taken > memory_bytes:
                raise out_of_memory(f"the rows of the key take more than {memory_bytes:,} bytes", pipeline)
            if is_over():
                break
    except (OSError, pa.ArrowException, RESTError) as error:
        raise files_away(error, pipeline) from error
    if is_over():
        raise out_of_time(pipeline)
    found = pa.concat_tables(every or [schema.empty_table()])
    found = found.take(pc.sort_indices(found, _NEWEST_FIRST))
    return Answer(schema, iter(found.to_batches(ROWS_A_BATCH)))


def _check_columns(columns: pa.Schema, pipeline: PipelineConfig) -> None:
    """Refuse a table of which another tool took or renamed what a lookup is by."""
    for name in (KEY, GENERATION, TIMESTAMP, OFFSET):
        if name not in columns.names:
            raise ConfigError(
                f"the table has no column {name}",
                code="query-refused",
                hint="Ask with `query` by the columns that it has.",
                **pipeline.where,
            )


def _of_mirror(prefix: Prefix, pipeline: PipelineConfig, key: str) -> Iterator[pa.Table]:
    """Yield the row of a key, in whatever way that is written: its mirror has it in one spelling."""
    table = prefix.seam.table
    spelling = replace(spelling_of(pipeline, progress_of(table).cdc), is_compared=False)
    wanted = spelling.read(Documents(), key.encode()).text
    scan = table.scan(EqualTo(Reference(ROW_ID), wanted))  # type: ignore[arg-type, call-arg]
    for batch in stream(scan, prefix.seam.columns):
        yield pa.Table.from_batches([batch])


def _rows_of(prefix: Prefix, key: str) -> Iterator[pa.Table]:
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
