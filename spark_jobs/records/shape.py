"""Decoded rows with the columns that say where each record comes from: what is written to the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from spark_jobs.records.decoded import BadValue, Decoded, Phase
from spark_jobs.records.origin_columns import is_unshowable, origin_columns, pick
from spark_jobs.records.records import Origin, Records
from spark_jobs.schema.metadata_columns import TIMESTAMP


def shape(decoded: Decoded, records: Records, origin: Origin, schema: pa.Schema) -> Decoded:
    """Return rows of ``schema``: the decoder's columns and those of the record's origin, found by name.

    ``records`` are the ones that were decoded. A timestamp outside the years 1 to 9999 makes its record a
    bad value.
    """
    columns = origin_columns(records, decoded.rows, origin)
    if _has_misplaced(columns, pick(records.timestamps_ms, decoded.rows)):
        misplaced = is_unshowable(records.timestamps_ms)
        decoded = decoded.without(
            [
                BadValue(
                    row,
                    Phase.TIMESTAMP,
                    TIMESTAMP,
                    f"{records.timestamps_ms[row]} ms is outside the years 1 to 9999",
                )
                for row in decoded.indices
                if misplaced[row]
            ]
        )
        columns = origin_columns(records, decoded.rows, origin)
    columns |= zip(decoded.table.column_names, decoded.table.columns, strict=True)
    table = pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)
    return Decoded(table, decoded.rows, decoded.bad)


def _has_misplaced(columns: Mapping[str, pa.Array], timestamps_ms: Sequence[int]) -> bool:
    """True if a record has a time that the table cannot hold; it is null there, as one without a time is."""
    return columns[TIMESTAMP].null_count > 0 and bool(is_unshowable(timestamps_ms).any())
