"""Rows of a dead-letter table: the record as it came, and why it is not in the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.records.shape import Origin, headers_column, origin_columns, pick

if TYPE_CHECKING:
    from spark_jobs.kafka.chunks import Chunk
    from spark_jobs.records.decoded import BadValue


def dead_letter_table(
    bad: Sequence[BadValue], records: Chunk, origin: Origin, batch_id: str, schema: pa.Schema
) -> pa.Table:
    """Return one row for each bad value, columns found by name in the dead-letter table's ``schema``.

    A Kafka timestamp that no table can hold is null here and stands in ``error``.
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
        "batch_id": pa.repeat(pa.scalar(batch_id), len(bad)),
    }
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)
