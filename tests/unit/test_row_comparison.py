"""Rows read back are compared as they were written, whatever PyIceberg's scan makes of nulls in them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.audit.row_check import equal_values

NAN = float("nan")
POINT = pa.struct([("x", pa.int64()), ("parts", pa.list_(pa.struct([("y", pa.int64())])))])


@pytest.mark.parametrize(
    ("written", "read", "is_same"),
    [
        (None, None, True),
        ({"x": 1, "parts": None}, {"x": 1, "parts": []}, True),
        ({"x": 1, "parts": [{"y": 2}]}, {"x": 1, "parts": [{"y": 2}]}, True),
        ({"x": 1, "parts": None}, {"x": 2, "parts": []}, False),
        ({"x": 1, "parts": None}, {"x": 1, "parts": [None]}, False),
        ({"x": 1, "parts": [{"y": 2}]}, {"x": 1, "parts": []}, False),
        ({"x": None, "parts": None}, None, False),
    ],
)
def test_a_null_list_inside_is_an_empty_one(written: Any, read: Any, is_same: bool) -> None:
    """At any depth a null list of structs, which the scan shows as an empty one, is no difference."""
    left, right = (pa.chunked_array([pa.array([value], POINT)]) for value in (read, written))
    assert equal_values(left, right).tolist() == [is_same]


@pytest.mark.parametrize(
    ("said", "says_nothing"),
    [
        ({"x": None, "parts": None}, True),
        ({"x": None, "parts": []}, True),
        ({"x": None, "parts": [None, {"y": None}]}, True),
        ({"x": 0, "parts": None}, False),
        ({"x": None, "parts": [{"y": 1}]}, False),
    ],
)
def test_what_says_nothing_is_as_a_null_is_held_where_that_is_asked(said: Any, says_nothing: bool) -> None:
    """So drained before its column had fields; a null that is said is never what holds something."""
    held, wanted = (pa.chunked_array([pa.array([value], POINT)]) for value in (None, said))
    assert equal_values(held, wanted, is_nothing_null=True).tolist() == [says_nothing]
    assert equal_values(held, wanted).tolist() == [False]
    assert equal_values(wanted, held, is_nothing_null=True).tolist() == [False]


@pytest.mark.parametrize(
    ("left", "right", "is_same"),
    [
        ([("a", 1), ("b", 2)], [("b", 2), ("a", 1)], True),
        ([("a", 1), ("b", 2)], [("b", 1), ("a", 2)], False),
        ([("a", 1)], [("a", 1), ("b", None)], False),
        ([], [("a", None)], False),
    ],
)
def test_a_map_is_its_entries_in_whatever_order(left: Any, right: Any, is_same: bool) -> None:
    """Nothing says which comes first."""
    kind = pa.map_(pa.string(), pa.int64())
    columns = (pa.chunked_array([pa.array([value], kind)]) for value in (left, right))
    assert equal_values(*columns).tolist() == [is_same]


@pytest.mark.parametrize(
    ("left", "right", "is_same"), [(NAN, NAN, True), (NAN, None, False), (NAN, 1.0, False)]
)
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_nan_is_nan(left: float, right: float | None, is_same: bool, kind: pa.DataType) -> None:
    """At any depth: a record that says it is in the table as it was."""
    for one, other in ((left, right), (right, left)):
        columns = [pa.chunked_array([pa.array([value], kind)]) for value in (one, other)]
        assert equal_values(*columns).tolist() == [is_same]
        inside = [pa.chunked_array([[{"x": value, "l": [value]}]]) for value in (one, other)]
        nested = pa.struct([("x", kind), ("l", pa.list_(kind))])
        assert equal_values(*(each.cast(nested) for each in inside)).tolist() == [is_same]
