"""Values of columns that were given another type: in the new one, or where they were before.

What does not fit the new type stays in the column that was kept, of records that were drained before the
change; of those that came after it, it makes no row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_jobs.config.columns import GROWTH, Growth
from spark_jobs.protocol.kept import KeptColumn, fallbacks_at, kept_names
from spark_jobs.records.projection import Projected, project, retyped
from spark_jobs.values.fitting import MisfitError

if TYPE_CHECKING:
    from spark_jobs.kafka.chunks import Chunk


_ALONE = "value"


def fallbacks_of(records: Chunk, kept: Sequence[KeptColumn], generation: int) -> list[Mapping[str, str]]:
    """Return for each record which column takes what does not fit another; nothing where none falls back."""
    falls_back = partial(fallbacks_at, kept, generation)
    # Where a partition's first record has none to fall back to, no later one has.
    is_old = any(falls_back(part.partition, part.offsets[0]) for part in records.parts() if part.offsets)
    return [*map(falls_back, records.partitions.tolist(), records.offsets)] if is_old else []


def project_keeping(
    rows: pa.Table,
    columns: pa.Schema,
    growth: Growth,
    kept: Sequence[KeptColumn],
    fallbacks: Sequence[Mapping[str, str]],
) -> Projected:
    """Do what ``project`` does, with the ``fallbacks`` of each row; no field is one of a kept column."""
    names = kept_names(kept)
    own = pa.schema([column for column in columns if column.name not in names])
    held: dict[str, pa.ChunkedArray] = {}
    misfits: dict[int, MisfitError] = {}
    ignored: Counter[str] = Counter()
    for name in {each.column for each in kept}.intersection(rows.column_names, own.names):
        chain = [name, *(each.kept for each in reversed(kept) if each.column == name)]
        there = [columns.field(each) for each in chain if each in columns.names]
        settled = _settled(rows.column(name), there, growth, fallbacks)
        rows = rows.set_column(rows.schema.get_field_index(name), name, settled.columns.pop(name))
        held |= settled.columns
        misfits |= settled.misfits
        ignored.update(settled.ignored)
    good = [row for row in range(rows.num_rows) if row not in misfits]
    made = project(rows.take(pa.array(good, pa.int64())) if misfits else rows, own, growth)
    left = good if made.rows is None else [good[row] for row in made.rows]
    misfits |= {good[row]: misfit for row, misfit in made.misfits.items()}
    arrays = [
        made.table.column(column.name)
        if column.name not in names
        else held[column.name].take(pa.array(left, pa.int64()))
        if column.name in held
        else pa.nulls(len(left), column.type)
        for column in columns
    ]
    table = pa.Table.from_arrays(arrays, schema=columns)
    return Projected(table, left if misfits else None, misfits, ignored + Counter(made.ignored))


def refit_by_schema(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return what a column kept in another type, null where ``project_keeping`` would leave it there."""
    made = retyped(values, pa.field(_ALONE, kind), GROWTH)
    return _at(made, range(len(values)), len(values))


def _at(made: Projected, rows: Sequence[int], count: int) -> pa.ChunkedArray:
    """Return what was made of these rows, null at all others of so many."""
    there = np.asarray(rows, np.int64)[slice(None) if made.rows is None else made.rows]
    at = np.full(count, -1)
    at[there] = np.arange(len(there))
    return made.table.column(0).take(pa.array(at, mask=at < 0))


@dataclass(slots=True)
class _Settled:
    """A column's values under its own name and under those of kept ones, each in one of them."""

    columns: dict[str, pa.ChunkedArray] = field(default_factory=dict)
    misfits: dict[int, MisfitError] = field(default_factory=dict)
    ignored: Counter[str] = field(default_factory=Counter)


def _settled(
    values: pa.ChunkedArray,
    columns: Sequence[pa.Field],
    growth: Growth,
    fallbacks: Sequence[Mapping[str, str]],
) -> _Settled:
    """Return each value in the first of the columns, the newest first, that it fits and falls back to."""
    settled = _Settled()
    reasons: dict[int, MisfitError] = {}
    waiting = {columns[0].name: [*range(len(values))]}
    for column in columns:
        here = waiting.pop(column.name, [])
        field_itself = column.with_name(columns[0].name)
        made = retyped(values.take(pa.array(here, pa.int64())), field_itself, growth)
        settled.columns[column.name] = _at(made, here, len(values))
        settled.ignored.update(made.ignored)
        for place, misfit in made.misfits.items():
            row = here[place]
            reasons.setdefault(row, misfit)
            waiting.setdefault(fallbacks[row].get(column.name, "") if fallbacks else "", []).append(row)
    settled.misfits = {row: reasons[row] for rows in waiting.values() for row in rows}
    return settled
