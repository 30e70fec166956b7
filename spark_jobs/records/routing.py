"""A chunk's rows by the table that each goes to: the pipeline's own, and those it routes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.records.decoder import Decoded, Routes
from spark_jobs.schema.column_source import fitted
from spark_jobs.schema.metadata_columns import OFFSET

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_jobs.records.decoder import Shaping

STAYS = -1
PLACE = "(table)"  # beside the columns of rows that are looked at together: null in the pipeline's own table


def routes_of(shaping: Shaping, values: pa.ChunkedArray, rows: Sequence[int] | None, records: int) -> Routes:
    """Return where rows go by the ``values`` of the route's expression, one for each of ``rows``.

    A null goes nowhere, as a value that is not listed does, which is counted; one that is listed with the
    pipeline's own table is not.
    """
    tables = tuple(sorted({table for table in shaping.routes.values() if table is not None}))
    coded = values.cast(pa.string()).combine_chunks().dictionary_encode()
    known = coded.dictionary.to_pylist()
    codes = pc.fill_null(coded.indices, len(known)).to_numpy()
    listed = [shaping.routes.get(value) for value in known]
    targets = np.array([*(STAYS if each is None else tables.index(each) for each in listed), STAYS], np.int16)
    places = np.full(records, STAYS, np.int16)
    places[slice(None) if rows is None else rows] = targets[codes]
    counts = np.bincount(codes, minlength=len(known))
    unlisted = {value: int(counts[n]) for n, value in enumerate(known) if value not in shaping.routes}
    return Routes(tables, places, unlisted)


def placed_rows(own: pa.Table, routed: Mapping[str, pa.Table]) -> pa.Table:
    """Return the rows of all tables in the columns of the pipeline's own, with their ``PLACE``, by offset."""
    if not routed:
        return own.append_column(PLACE, pa.nulls(len(own), pa.string()))
    tables = [
        each.append_column(PLACE, pa.repeat(pa.scalar(name, pa.string()), len(each)))
        for name, each in [(None, own), *((name, _as_own(rows, own.schema)) for name, rows in routed.items())]
    ]
    return pa.concat_tables(tables).sort_by(OFFSET)


def _as_own(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    """Return a routed table's rows in these columns; what an own column's newer type cannot hold is null."""
    found = []
    for column in columns:
        try:
            found.append(fitted(rows, pa.schema([column])).column(0))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            found.append(pa.chunked_array([pa.nulls(len(rows), column.type)]))
    return pa.Table.from_arrays(found, schema=columns)


def places_of(shaped: Decoded) -> pa.Array:
    """Return the ``PLACE`` that each row belongs to."""
    if shaped.routes is None:
        return pa.nulls(shaped.table.num_rows, pa.string())
    places = shaped.routes.places[np.asarray(shaped.indices, np.int64)]
    return pa.array(shaped.routes.tables, pa.string()).take(pa.array(places, mask=places == STAYS))


@dataclass(frozen=True, slots=True)
class RoutedRows:
    """Rows that go to another table, and the indices of their records."""

    rows: pa.Table
    indices: NDArray[np.int64]


def taken(table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
    """Return a copy of these rows; a table's own way to take them costs four times as much."""
    if not len(rows):
        return table.slice(0, 0)
    (batch,) = table.combine_chunks().to_batches()
    return pa.Table.from_batches([batch.take(pa.array(rows))])


def by_table(shaped: Decoded) -> tuple[pa.Table, dict[str, RoutedRows]]:
    """Return the rows that stay and those that go to other tables, each in the order of the records.

    The latter are cut out of one copy: a part that is kept keeps all of it.
    """
    routes = shaped.routes
    if routes is None:
        return shaped.table, {}
    indices = np.asarray(shaped.indices, np.int64)
    places = routes.places[indices]
    order = np.argsort(places, kind="stable")
    firsts = np.searchsorted(places[order], np.arange(len(routes.tables) + 1)).tolist()
    staying, going = order[: firsts[0]], taken(shaped.table, order[firsts[0] :])
    parts = zip(routes.tables, pairwise(firsts), strict=True)
    return taken(shaped.table, staying), {
        table: RoutedRows(going.slice(first - firsts[0], end - first), indices[order[first:end]])
        for table, (first, end) in parts
        if end > first
    }
