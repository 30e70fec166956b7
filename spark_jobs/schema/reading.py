"""Values that were read in parts, as they are one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from spark_jobs.schema.packed_values import PackedValues
from spark_jobs.schema.writer_schema import ReadValues, Unread

_MOST_BYTES_AT_ONCE = 2 << 20


def in_order(some: ReadValues, others: ReadValues, count: int) -> ReadValues:
    """Return rows of the same ``count`` values in their order; no value is in both, ``rows`` are given."""
    some_rows, other_rows = np.array(some.rows, np.int64), np.array(others.rows, np.int64)
    table, rows = some.table, some_rows
    if len(other_rows):
        rows = np.concatenate([some_rows, other_rows])
        order = np.argsort(rows)
        table, rows = pa.concat_tables([some.table, others.table]).take(order), rows[order]
    kept = None if len(rows) == count else rows.tolist()
    ignored = Counter(some.ignored) + Counter(others.ignored)
    return ReadValues(table, kept, some.unread + others.unread, ignored)


def read_in_parts(values: PackedValues, read: Callable[[PackedValues], ReadValues]) -> ReadValues:
    """Return all of them read: not at once where they are many bytes, as items of one byte take fifty."""
    parts = list(values.parts(_MOST_BYTES_AT_ONCE))
    if len(parts) == 1:
        return read(values)
    tables: list[pa.Table] = []
    rows: list[int] = []
    unread: list[Unread] = []
    ignored: Counter[str] = Counter()
    first = 0
    for part in parts:
        made = read(part)
        tables.append(made.table)
        rows += [first + row for row in (range(len(part)) if made.rows is None else made.rows)]
        unread += [replace(each, index=first + each.index) for each in made.unread]
        ignored.update(made.ignored)
        first += len(part)
    kept = None if len(rows) == len(values) else rows
    return ReadValues(pa.concat_tables(tables), kept, tuple(unread), ignored)
