"""Ranges of numbers, days and times that a column's type can hold."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

DAY_US = 86_400_000_000
# The years 1 to 9999: what lies outside cannot be shown, nor can its file's statistics be read.
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
FIRST_US, LAST_US = FIRST_DAY * DAY_US, (LAST_DAY + 1) * DAY_US - 1


def bounds(kind: pa.DataType, unit_us: int = 1) -> tuple[int, int]:
    """Return the lowest and highest number that a column of integers, days or times can hold.

    Times are counted in units of so many microseconds.
    """
    if pa.types.is_integer(kind):
        return -(1 << kind.bit_width - 1), (1 << kind.bit_width - 1) - 1
    if pa.types.is_date32(kind):
        return FIRST_DAY, LAST_DAY
    first, last = (0, DAY_US - 1) if pa.types.is_time(kind) else (FIRST_US, LAST_US)
    return -(-first // unit_us), last // unit_us


def is_certain(array: pa.Array, *, are_exact: bool = False) -> bool:
    """True if times are in the displayable years, and numbers are finite and not rounded integers.

    From 2^53 on (2^24 of a float) one may be rounded, and what was written is not here any more.
    """
    kind = array.type
    if pa.types.is_floating(kind):
        limit = float("inf") if are_exact else 2.0 ** (53 if pa.types.is_float64(kind) else 24)
        is_within = pc.less(pc.abs(array), pa.scalar(limit, kind))
        return pc.all(is_within).as_py() is not False
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        ends = pc.min_max(array.cast(pa.int64() if pa.types.is_timestamp(kind) else pa.int32())).as_py()
        lowest, highest = bounds(kind)
        return ends["min"] is None or (ends["min"] >= lowest and ends["max"] <= highest)
    if pa.types.is_struct(kind):
        return all(is_certain(child, are_exact=are_exact) for child in array.flatten())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return is_certain(array.flatten(), are_exact=are_exact)
    return True
