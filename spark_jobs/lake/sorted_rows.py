"""Rows in the order of some of their columns, as Iceberg and Spark order them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc


def sorted_rows(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return the rows ascending by the columns: nulls first, NaN last; equal ones stay as they are."""
    if not columns:
        return rows
    keys = [key for name in columns for key in _keys(rows.column(name))]
    names = [str(number) for number in range(len(keys))]
    wanted = [(name, "ascending", "at_start") for name in names]
    return rows.take(pc.sort_indices(pa.Table.from_arrays(keys, names), sort_keys=wanted))


def _keys(column: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
    if pa.types.is_floating(column.type):
        yield pc.is_nan(column)  # Arrow's own order has NaN next to the nulls
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)  # a UUID is ordered by its bytes
    yield column
