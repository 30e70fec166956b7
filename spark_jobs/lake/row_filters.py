"""Row filters on one column and on record coordinates, and the rows of a range.

PyIceberg declares its predicates' arguments as it serialises them, not as it takes them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysFalse, And, EqualTo, GreaterThanOrEqual, In, IsNull, LessThan, Or

from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.schema.iceberg_types import GENERATION, OFFSET, PARTITION

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

    from spark_jobs.lake.coordinates import Coordinates

# Shorter ones are named offset by offset.
FEWEST_OF_A_RANGE = 1_000


def equals(column: str, value: Any) -> BooleanExpression:
    """Return the filter for a column's value."""
    return EqualTo(**_of(column, value=value))


def is_null(column: str) -> BooleanExpression:
    """Return the filter for null values of a column."""
    return IsNull(**_of(column))


def is_among(column: str, values: Iterable[Any]) -> BooleanExpression:
    """Return the filter for a column with one of the values."""
    return In(**_of(column, values=set(values)))


def is_below(column: str, end: Any) -> BooleanExpression:
    """Return the filter for a column less than ``end``."""
    return LessThan(**_of(column, value=end))


def is_between(column: str, start: Any, end: Any) -> BooleanExpression:
    """Return the filter for a column in ``[start, end)``."""
    return And(GreaterThanOrEqual(**_of(column, value=start)), LessThan(**_of(column, value=end)))


def is_in_range(offsets: OffsetRange, generation: int) -> BooleanExpression:
    """Return the filter for rows and dead letters of these offsets."""
    return And(
        equals(PARTITION, offsets.partition),
        equals(GENERATION, generation),
        is_between(OFFSET, offsets.start, offsets.end),
    )


def is_in_any(ranges: Iterable[OffsetRange], generation: int) -> BooleanExpression:
    """Return the filter for rows and dead letters of any of these offsets."""
    return _any_of([is_in_range(r, generation) for r in ranges])


def is_in_span(ranges: OffsetRanges, generation: int) -> BooleanExpression:
    """Return a filter for all between the lowest and the highest of the partitions and offsets."""
    if not ranges:
        return AlwaysFalse()
    partitions, starts, ends = ranges.ends.keys(), ranges.starts.values(), ranges.ends.values()
    offsets = is_between(OFFSET, min(starts), max(ends))
    return And(
        equals(GENERATION, generation), is_between(PARTITION, min(partitions), max(partitions) + 1), offsets
    )


def is_at(places: Coordinates, generation: int) -> BooleanExpression:
    """Return the filter for rows and dead letters at any number of coordinates."""
    long = [r for r in places.ranges if len(r) > FEWEST_OF_A_RANGE]
    single: defaultdict[int, list[int]] = defaultdict(list)
    for r in places.ranges:
        if len(r) <= FEWEST_OF_A_RANGE:
            single[r.partition].extend(range(r.start, r.end))
    named = [And(equals(PARTITION, p), is_among(OFFSET, offsets)) for p, offsets in single.items()]
    return Or(is_in_any(long, generation), And(equals(GENERATION, generation), _any_of(named)))


def _any_of(conditions: Sequence[BooleanExpression]) -> BooleanExpression:
    """Join filters as a balanced tree: PyIceberg recurses as deep as an expression is."""
    if len(conditions) <= 1:
        return conditions[0] if conditions else AlwaysFalse()
    half = len(conditions) // 2
    return Or(_any_of(conditions[:half]), _any_of(conditions[half:]))


def rows_in(table: Table, offsets: OffsetRange, generation: int) -> pa.Table:
    """Return the rows of these offsets, in order."""
    return table.scan(is_in_range(offsets, generation)).to_arrow().sort_by(OFFSET)


def offsets_in(
    table: Table, offsets: OffsetRange, generation: int, *, snapshot_id: int | None = None
) -> NDArray[np.int64]:
    """Return the offsets that have a row, unordered; duplicates are repeated."""
    inside = is_in_range(offsets, generation)
    scan = table.scan(inside, selected_fields=(OFFSET,), snapshot_id=snapshot_id)
    found: NDArray[np.int64] = scan.to_arrow().column(OFFSET).to_numpy()
    return found


def _of(column: str, **values: Any) -> dict[str, Any]:
    return {"term": column, **values}
