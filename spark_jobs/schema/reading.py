"""Values that were read in parts, as they are one after the other."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from spark_jobs.schema.writer_schema import ReadValues


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
