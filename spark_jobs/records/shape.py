"""Rows of a table and its dead-letter table: keys, headers and origin added to the values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME

from spark_jobs.kafka.chunks import Chunk
from spark_jobs.records.decoder import BadValue, Decoded, Phase
from spark_jobs.schema.archive_columns import INGEST_TIMESTAMP, KAFKA
from spark_jobs.schema.iceberg_types import (
    FAILURES,
    FIRST_FAILED_AT,
    HEADERS,
    INGESTED_AT,
    KEY,
    OFFSET,
    TIMESTAMP,
)
from spark_jobs.schema.schema_views import is_text
from spark_jobs.values.ranges import FIRST_US, LAST_US

_T = TypeVar("_T")

NO_TIMESTAMP = -1
_TIMESTAMP_TYPES = {TIMESTAMP_CREATE_TIME: "create", TIMESTAMP_LOG_APPEND_TIME: "log_append"}


@dataclass(frozen=True, slots=True)
class Origin:
    """Properties shared by a batch's records; ``ingested_at_us`` is None before they are in a batch."""

    topic: str
    generation: int
    ingested_at_us: int | None


def shape(decoded: Decoded, records: Chunk, origin: Origin, schema: pa.Schema) -> Decoded:
    """Return rows of ``schema``: decoded columns and columns of the record's origin, found by name.

    ``records`` are the ones that were decoded. A timestamp outside the years 1 to 9999 is null, and counted
    among what has no column; in an archive it is beside its number.
    """
    columns = origin_columns(records, decoded.rows, origin)
    if decoded.of_kafka:
        columns[KAFKA] = kafka_column(records, decoded.rows, columns, schema.field(KAFKA).type)
        return decoded.beside(columns, schema)
    # It is null there, as the time of a record without one is.
    if columns[TIMESTAMP].null_count:
        unshowable = is_unshowable(_integers(pick(records.timestamps_ms, decoded.rows))).sum()
        if unshowable:
            decoded = replace(decoded, ignored={**decoded.ignored, TIMESTAMP: int(unshowable)})
    return decoded.beside(columns, schema)


def add_keys_and_headers(decoded: Decoded, records: Chunk, columns: pa.Schema) -> Decoded:
    """Return the rows with all of ``columns``, in their order.

    A key that is not UTF-8 where ``_kafka_key`` is a string makes its record a bad value.
    """
    try:
        keys = pa.array(pick(records.keys, decoded.rows), pa.binary()).cast(columns.field(KEY).type)
    except pa.ArrowInvalid:
        bad = [
            BadValue(row, Phase.KEY, KEY, "the key is not UTF-8")
            for row in decoded.indices
            if not is_text(records.keys[row])
        ]
        if not bad:
            raise
        return add_keys_and_headers(decoded.without(bad), records, columns)
    headers = headers_column(pick(records.headers, decoded.rows), columns.field(HEADERS).type)
    return decoded.beside({KEY: keys, HEADERS: headers}, columns)


def dead_letter_table(
    bad: Sequence[BadValue], records: Chunk, origin: Origin, batch_id: str | None, schema: pa.Schema
) -> pa.Table:
    """Return one row for each bad value; columns are found by name in the dead-letter table's ``schema``.

    A Kafka timestamp that no table can hold is null here and stands in ``error``. Columns that are no part of
    every dead-letter table are null.
    """
    if not bad:
        return schema.empty_table()
    rows = [value.index for value in bad]
    columns = origin_columns(records, rows, origin)
    columns |= {
        "key": pa.array(pick(records.keys, rows), pa.binary()),
        "value": pa.array(pick(records.values, rows), pa.binary()),
        "headers": headers_column(pick(records.headers, rows), schema.field("headers").type),
        "phase": pa.array([value.phase.value for value in bad], pa.string()),
        "field": pa.array([value.field for value in bad], pa.string()),
        "error": pa.array([value.error for value in bad], pa.string()),
        "batch_id": pa.repeat(pa.scalar(batch_id, pa.string()), len(bad)),
        FIRST_FAILED_AT: columns[INGESTED_AT],
        FAILURES: pa.repeat(pa.scalar(1, pa.int32()), len(bad)),
    }
    arrays = [columns.get(field.name, pa.nulls(len(bad), field.type)) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def origin_columns(records: Chunk, rows: Sequence[int] | None, origin: Origin) -> dict[str, pa.Array]:
    """Return the coordinates of the records at ``rows`` (None: all), by column name."""
    count = len(records.offsets) if rows is None else len(rows)
    return {
        "_kafka_topic": pa.repeat(pa.scalar(origin.topic), count),
        "_kafka_partition": _partitions(records, rows, count),
        "_kafka_offset": pa.array(_integers(pick(records.offsets, rows))),
        "_kafka_generation": pa.repeat(pa.scalar(origin.generation, pa.int32()), count),
        "_kafka_timestamp": _timestamps(pick(records.timestamps_ms, rows)),
        "_ingested_at": pa.repeat(pa.scalar(origin.ingested_at_us, pa.timestamp("us", "UTC")), count),
    }


def kafka_column(
    records: Chunk, rows: Sequence[int] | None, columns: Mapping[str, pa.Array], kind: pa.DataType
) -> pa.Array:
    """Return an archive's column of further record metadata, found in ``columns`` by name."""
    times = _integers(pick(records.timestamps_ms, rows))
    parts = {
        "offset": columns[OFFSET],
        "event_timestamp": columns[TIMESTAMP],
        "event_timestamp_ms": pa.array(times, pa.int64(), mask=times == NO_TIMESTAMP),
        "timestamp_type": _timestamp_types(pick(records.timestamp_types, rows)),
        INGEST_TIMESTAMP: columns[INGESTED_AT],
        "batch_start": pa.nulls(len(times), pa.int64()),
    }
    return pa.StructArray.from_arrays([parts[field.name] for field in kind], fields=list(kind))


def _timestamp_types(types: Sequence[int]) -> pa.Array:
    if types and types.count(types[0]) == len(types):  # a topic has one, unless its configuration changed
        return pa.repeat(pa.scalar(_TIMESTAMP_TYPES.get(types[0]), pa.string()), len(types))
    return pa.array([*map(_TIMESTAMP_TYPES.get, types)], pa.string())


def _partitions(records: Chunk, rows: Sequence[int] | None, count: int) -> pa.Array:
    if records.runs:
        return pa.array(records.partitions if rows is None else records.partitions[rows])
    return pa.repeat(pa.scalar(records.partition, pa.int32()), count)


def headers_column(
    headers: Sequence[Sequence[tuple[str, bytes | None]] | None], kind: pa.DataType
) -> pa.Array:
    """Headers as a list of names and values; null for a record without headers."""
    if headers.count(None) == len(headers):
        return pa.nulls(len(headers), kind)
    return pa.array(headers, kind)


def pick(column: Sequence[_T], rows: Sequence[int] | None) -> Sequence[_T]:
    """Return the items at ``rows``; all of them for None."""
    return column if rows is None else [*map(column.__getitem__, rows)]


def is_unshowable(timestamps_ms: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return the mask of times outside the years that a table can hold."""
    times = np.asarray(timestamps_ms, np.int64)
    return (times < FIRST_US // 1000) | (times > LAST_US // 1000)


def _integers(values: Sequence[int]) -> np.ndarray:
    # Half of what Arrow or ``asarray`` take, which look at every value's type first.
    return np.fromiter(values, np.int64, len(values))


def _timestamps(timestamps_ms: Sequence[int]) -> pa.Array:
    times = _integers(timestamps_ms)
    is_null = (times == NO_TIMESTAMP) | is_unshowable(times)
    return pa.array(np.where(is_null, 0, times) * 1000, pa.timestamp("us", "UTC"), mask=is_null)
