"""Decoded rows with the columns that say where each record comes from: what is written to the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.records.decoded import BadValue, Phase
from spark_jobs.records.origin_columns import headers_column, is_unshowable, origin_columns, pick

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_jobs.records.decoded import Decoded
    from spark_jobs.records.records import Origin, Records


@dataclass(frozen=True, slots=True)
class Shaped:
    """Rows of the table, in the order of the records, and all records of the chunk that are none."""

    rows: pa.Table
    bad: tuple[BadValue, ...]


def shape(decoded: Decoded, records: Records, origin: Origin, schema: pa.Schema) -> Shaped:
    """Put the columns of ``schema`` together, found by name: the JSON's and the metadata columns.

    ``records`` are the ones that were decoded. A key that is not UTF-8 where ``_kafka_key`` is a string makes
    its record a bad value, and so does a timestamp outside the years 1 to 9999.
    """
    key_type = schema.field("_kafka_key").type
    table = decoded.table
    rows: Sequence[int] | None = decoded.rows
    keys = _as_keys(pick(records.keys, rows), key_type)
    columns = origin_columns(records, rows, origin)
    bad: list[BadValue] = []
    if keys is None or _has_misplaced(columns, pick(records.timestamps_ms, rows)):
        decoded_rows = range(len(records.offsets)) if rows is None else rows
        bad = _bad_origins(records, decoded_rows, is_text=key_type != pa.binary())
        at_fault = {value.index for value in bad}
        kept = [position for position, row in enumerate(decoded_rows) if row not in at_fault]
        table, rows = table.take(kept), [decoded_rows[position] for position in kept]
        keys = _as_keys(pick(records.keys, rows), key_type)
        columns = origin_columns(records, rows, origin)
    columns["_kafka_key"] = keys
    columns["_kafka_headers"] = headers_column(
        pick(records.headers, rows), schema.field("_kafka_headers").type
    )
    columns |= zip(table.column_names, table.columns, strict=True)
    return Shaped(
        pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema),
        tuple(sorted((*decoded.bad, *bad), key=lambda value: value.index)),
    )


def _has_misplaced(columns: Mapping[str, pa.Array], timestamps_ms: Sequence[int]) -> bool:
    """Whether a record has a time that the table cannot hold; it is null there, as one without a time is."""
    return columns["_kafka_timestamp"].null_count > 0 and bool(is_unshowable(timestamps_ms).any())


def _as_keys(keys: Sequence[bytes | None], kind: pa.DataType) -> pa.Array | None:
    """The keys as a column, or None when one is not of the column's type."""
    try:
        return pa.array(keys, pa.binary()).cast(kind)
    except pa.ArrowInvalid:
        return None


def _bad_origins(records: Records, rows: Sequence[int], *, is_text: bool) -> list[BadValue]:
    misplaced = is_unshowable(records.timestamps_ms)
    bad = []
    for row in rows:
        key = records.keys[row]
        if is_text and key is not None and not _is_utf8(key):
            bad.append(BadValue(row, Phase.KEY, "_kafka_key", "the key is not UTF-8"))
        elif misplaced[row]:
            error = f"{records.timestamps_ms[row]} ms is outside the years 1 to 9999"
            bad.append(BadValue(row, Phase.TIMESTAMP, "_kafka_timestamp", error))
    return bad


def _is_utf8(key: bytes) -> bool:
    try:
        key.decode()
    except UnicodeDecodeError:
        return False
    return True
