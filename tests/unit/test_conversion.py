"""Values of a column in another type: exactly as a record would have brought them, or none."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.values.exact import refit

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("before", "after", "values", "fitted"),
    [
        (pa.float64(), pa.int64(), [7.0, 1.5, 2.0**63, None, float("nan")], [7, None, None, None, None]),
        (pa.int64(), pa.float64(), [2**53, 2**53 + 1], [2.0**53, None]),
        (pa.int64(), pa.int32(), [1, 2**31], [1, None]),
        (pa.int64(), pa.decimal128(38, 0), [2**62], [Decimal(2**62)]),
        (pa.float64(), pa.decimal128(9, 2), [1.25, 1.255, 3.0], [Decimal("1.25"), None, Decimal("3.00")]),
        (pa.decimal128(9, 2), pa.int64(), [Decimal("3.00"), Decimal("3.50")], [3, None]),
        (pa.string(), pa.timestamp("us", "UTC"), ["2026-01-02T03:04:05Z", "soon"], [AT, None]),
        (pa.timestamp("us", "UTC"), pa.string(), [AT], ["2026-01-02T03:04:05+00:00"]),
        (pa.string(), pa.date32(), ["2026-01-02", "2026-13-02"], [date(2026, 1, 2), None]),
        (pa.binary(), pa.string(), [b"a", b"\xff"], ["a", None]),
        (pa.int64(), pa.string(), [1], [None]),
        (pa.float64(), pa.int64(), [2.0**53 - 1, 2.0**53, -(2.0**53)], [2**53 - 1, None, None]),
        (pa.float64(), pa.decimal128(38, 0), [1e15, 1e18, 1e22], [Decimal(10**15), None, None]),
        (pa.float32(), pa.int64(), [2.0**24 - 1, 2.0**24], [2**24 - 1, None]),
        (pa.float32(), pa.float64(), [2.0**25, 0.5], [2.0**25, 0.5]),
        (pa.float64(), pa.float32(), [1e18, 1e300], [float(np.float32(1e18)), None]),
        (
            pa.map_(pa.string(), pa.int64()),
            pa.map_(pa.string(), pa.float64()),
            [[], [("a", 1)]],
            [[], [("a", 1.0)]],
        ),
        (
            pa.struct([("x", pa.float64())]),
            pa.struct([("x", pa.int64())]),
            [{"x": 2.0**53}, {"x": None}],
            [None, {"x": None}],
        ),
        (pa.list_(pa.float64()), pa.list_(pa.int64()), [[1.0], [1.5]], [[1], None]),
    ],
)
def test_a_value_fits_exactly_or_is_left_out(
    before: pa.DataType, after: pa.DataType, values: list[Any], fitted: list[Any]
) -> None:
    """By the rules that records of the new type follow."""
    result = refit(pa.chunked_array([values], before), after)
    assert result.type == after
    assert result.to_pylist() == fitted
