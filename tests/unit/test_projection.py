"""Rows of a schema as rows of a table: exactly, or not at all."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.audit.plain_fold import is_untold
from spark_jobs.config.columns import GROWTH, Growth, NewFields
from spark_jobs.mirror.unavailable import is_unavailable
from spark_jobs.records.projection import Projected, project
from spark_jobs.schema.arrow_schema import column_of, items_of

NESTED = pa.struct([("a", pa.int64()), ("b", pa.string())])


def one(values: list[Any], kind: pa.DataType, column: pa.DataType, growth: Growth = GROWTH) -> Projected:
    """Project a single column."""
    return project(pa.table({"c": pa.array(values, kind)}), pa.schema([("c", column)]), growth)


@pytest.mark.parametrize(
    ("values", "kind", "column", "held"),
    [
        ([1, None], pa.int32(), pa.int64(), [1, None]),
        ([1, 1 << 40], pa.int64(), pa.int32(), [1]),
        ([1, (1 << 53) + 1], pa.int64(), pa.float64(), [1.0]),
        ([1 << 60, (1 << 60) + 1, (1 << 63) - 1, None], pa.int64(), pa.float64(), [2.0**60, None]),
        ([1 << 25, (1 << 25) + 1, -(1 << 31)], pa.int32(), pa.float32(), [2.0**25, -(2.0**31)]),
        ([1, 10**9], pa.int64(), pa.decimal128(9, 2), [Decimal("1.00")]),
        ([7, 1 << 60], pa.int64(), pa.decimal128(38, 20), [Decimal(7)]),
        ([0.5], pa.float32(), pa.float64(), [0.5]),
        ([0.1], pa.float64(), pa.float32(), []),
        ([1.0], pa.float64(), pa.int64(), []),
        ([Decimal("1.25"), Decimal("1.5")], pa.decimal128(9, 2), pa.decimal128(9, 1), [Decimal("1.5")]),
        (["1"], pa.string(), pa.int64(), []),
        ([None, b"x"], pa.binary(), pa.string(), [None]),
        ([[1, None], None, []], pa.list_(pa.int32()), pa.list_(pa.int64()), [[1, None], None, []]),
        ([[1], [1 << 40], [2, 3]], pa.list_(pa.int64()), pa.list_(pa.int32()), [[1], [2, 3]]),
        (
            [[("k", 1)], None, []],
            pa.map_(pa.string(), pa.int32()),
            pa.map_(pa.string(), pa.int64()),
            [[("k", 1)], None, []],
        ),
        ([{"a": 1}, None], pa.struct([("a", pa.int32())]), NESTED, [{"a": 1, "b": None}, None]),
        ([{"a": 1}], pa.struct([("a", pa.int64())]), pa.int64(), []),
    ],
)
def test_a_column_holds_a_value_exactly_or_the_row_is_none(
    values: list[Any], kind: pa.DataType, column: pa.DataType, held: list[Any]
) -> None:
    """What fits stands in its order; what does not is a misfit that names the column."""
    found = one(values, kind, column)
    assert found.table.column("c").to_pylist() == held
    assert found.table.column("c").type == column
    assert len(found.misfits) == len(values) - len(held)
    assert all(misfit.path[0] == "c" for misfit in found.misfits.values())


def test_a_row_has_null_where_its_schema_has_no_field() -> None:
    """And fields are found by name, in whatever order."""
    rows = pa.table({"b": ["x"], "a": [1]})
    columns = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())])
    assert project(rows, columns, GROWTH).table.to_pylist() == [{"a": 1, "b": "x", "c": None}]


@pytest.mark.parametrize(
    ("kind", "column", "values", "name"),
    [
        (NESTED, pa.struct([("a", pa.int64())]), [{"a": 1, "b": None}, {"a": 2, "b": "x"}], "c.b"),
        (
            pa.list_(NESTED),
            pa.list_(pa.struct([("a", pa.int64())])),
            [[{"a": 1, "b": None}], [{"a": 2, "b": "x"}]],
            "c.element.b",
        ),
        (
            pa.map_(pa.string(), NESTED),
            pa.map_(pa.string(), pa.struct([("a", pa.int64())])),
            [[("k", {"a": 1, "b": None})], [("k", {"a": 2, "b": "x"})]],
            "c.value.b",
        ),
    ],
)
def test_what_has_no_column_is_a_misfit_or_counted(
    kind: pa.DataType, column: pa.DataType, values: list[Any], name: str
) -> None:
    """At any depth, and only where it says something."""
    found = one(values, kind, column)
    assert found.rows == [0]
    assert ".".join(found.misfits[1].path) == name
    ignored = one(values, kind, column, Growth(NewFields.IGNORE))
    assert (ignored.rows, dict(ignored.ignored)) == (None, {name: 1})


def test_a_table_of_misfits_alone_has_no_rows() -> None:
    """Also where values without a column are counted."""
    found = one(["x"], pa.string(), pa.int64(), Growth(NewFields.IGNORE))
    assert (found.rows, list(found.misfits), dict(found.ignored)) == ([], [0], {})


@pytest.mark.parametrize(
    ("kind", "nothing", "something"),
    [
        (pa.int64(), None, 0),
        (pa.list_(pa.int64()), [], [None]),
        (pa.map_(pa.string(), pa.int64()), [], [("k", None)]),
        (NESTED, {"a": None, "b": None}, {"a": 1, "b": None}),
    ],
)
def test_nulls_and_empty_things_say_nothing(kind: pa.DataType, nothing: Any, something: Any) -> None:
    """A field without a column is passed over where it holds none but these."""
    rows = pa.table({"c": [1, 2], "more": pa.array([nothing, something], kind)})
    found = project(rows, pa.schema([("c", pa.int64())]), GROWTH)
    assert (found.rows, list(found.misfits)) == ([0], [1])


def test_chunks_and_slices_are_one_column() -> None:
    """Where a column begins in its memory is no matter."""
    whole = pa.array([[{"a": n, "b": None}] * (n % 3) for n in range(9)], pa.list_(NESTED))
    rows = pa.table({"c": pa.chunked_array([whole.slice(2, 3), whole.slice(5)])})
    wide = pa.list_(pa.struct([*NESTED, ("z", pa.int64())]))
    found = project(rows, pa.schema([("c", wide)]), GROWTH)
    wanted = [[{"a": n, "b": None, "z": None}] * (n % 3) for n in range(2, 9)]
    assert found.table.column("c").to_pylist() == wanted


def test_many_misfits_are_found_among_many_rows() -> None:
    """Each at its own place."""
    values = [1 << 40 if n % 7 == 3 else n for n in range(500)]
    found = one(values, pa.int64(), pa.int32())
    assert sorted(found.misfits) == [n for n in range(500) if n % 7 == 3]
    assert found.rows == [n for n in range(500) if n % 7 != 3]
    assert found.table.column("c").to_pylist() == [n for n in range(500) if n % 7 != 3]


UUIDS = pa.struct([("u", pa.uuid())])


@pytest.mark.parametrize("kind", [pa.list_(UUIDS), pa.map_(pa.string(), UUIDS), pa.list_(pa.uuid())])
@pytest.mark.parametrize("growth", [GROWTH, Growth(NewFields.IGNORE)])
def test_uuids_inside_are_none_where_all_is_null(kind: pa.DataType, growth: Growth) -> None:
    """Arrow itself makes no array of them."""
    values = column_of([None, None], kind)
    found = project(pa.table({"c": values}), pa.schema([("c", kind)]), growth)
    assert found.table.column("c").to_pylist() == [None, None]
    assert items_of(column_of([[], None], pa.list_(UUIDS))).type == UUIDS


@pytest.mark.parametrize(
    ("values", "kind", "column", "held"),
    [
        ([7, None], pa.int32(), pa.string(), ["7", None]),
        ([Decimal("1.50")], pa.decimal128(9, 2), pa.string(), ["1.50"]),
        ([Decimal("1.5000"), Decimal("1.5001")], pa.decimal128(9, 4), pa.decimal128(9, 2), [Decimal("1.50")]),
        (["12", "many", "1.5", "007"], pa.string(), pa.int32(), [12]),
        ([date(2026, 11, 26)], pa.date32(), pa.string(), ["2026-11-26"]),
        ([[1, None], None], pa.list_(pa.int32()), pa.list_(pa.string()), [["1", None], None]),
        ([True], pa.bool_(), pa.int32(), []),
        ([0.5], pa.float64(), pa.string(), []),
        ([0.1 + 0.2], pa.float64(), pa.decimal128(38, 20), []),
        ([0], pa.timestamp("us"), pa.string(), []),
        ([None], pa.timestamp("us"), pa.string(), [None]),
        ([b"x"], pa.binary(), pa.string(), []),
        (["x"], pa.string(), pa.binary(), []),
    ],
)
def test_a_converted_value_is_what_its_source_makes_of_it(
    values: list[Any], kind: pa.DataType, column: pa.DataType, held: list[Any]
) -> None:
    """In a column of another type; what a database writes otherwise than JSON does is no row."""
    rows, columns = pa.table({"c": pa.array(values, kind)}), pa.schema([("c", column)])
    made = project(rows, columns, GROWTH, converts=True)
    assert made.table.column("c").to_pylist() == held
    assert len(made.misfits) == len(values) - len(held)


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.date32()])
@pytest.mark.parametrize("other", [pa.string(), pa.decimal128(9, 2), pa.float64()])
def test_what_is_not_told_is_known_as_that_in_another_type(kind: pa.DataType, other: pa.DataType) -> None:
    """What Debezium puts into a list is no value, whatever it was converted to; others are none of it."""
    codes = [ord(letter) for letter in "__debezium_unavailable_value"]
    told = pa.array([codes, codes[:-1], [1]], pa.list_(pa.int32())).cast(pa.list_(kind))
    columns = pa.schema([("c", pa.list_(other))])
    made = project(pa.table({"c": told}), columns, GROWTH, converts=True).table.column("c")
    wanted = [True, False, False][: len(made)]
    assert len(made) == (0 if pa.types.is_date(kind) and not pa.types.is_string(other) else 3)
    assert is_unavailable(made).tolist() == wanted
    assert [is_untold(each) for each in made.to_pylist()] == wanted


@pytest.mark.parametrize("have", [pa.int64(), pa.decimal128(38, 0)])
def test_a_number_too_big_for_the_digits_before_the_point_is_no_other_one(have: pa.DataType) -> None:
    """Arrow multiplies 11 past 128 bits without a word, where all digits are behind the point."""
    rows = pa.table({"a": pa.array([0, 11], have)})
    made = project(rows, pa.schema([("a", pa.decimal128(38, 38))]), GROWTH)
    assert made.table.column("a").to_pylist() == [Decimal(0)]
    assert [*made.misfits] == [1]
