"""Values of columns that were given another type: drains, `retype` and the audit decide alike."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from spark_jobs.audit.row_check import equal_values
from spark_jobs.config.columns import GROWTH
from spark_jobs.config.settings import PipelineConfig
from spark_jobs.records.projection import Projected, project, refit_by_schema
from spark_jobs.records.reading_plan import refit_of
from spark_jobs.schema.arrow_schema import arrow_schema, column_of
from spark_jobs.schema.iceberg_types import declared_type
from spark_jobs.values.exact import may_convert
from spark_jobs.values.plain import in_column, stored

TIMESTAMPTZ = pa.timestamp("us", "UTC")
SINGLES = st.floats(width=32, allow_subnormal=False)
DIGITS = st.from_regex(r"-?[0-9]{1,20}(\.[0-9]{1,3})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))  # noqa: DTZ001  (local time)
TEXTS = st.one_of(
    DIGITS,
    st.integers(-(1 << 70), 1 << 70).map(str),
    st.floats().map(repr),
    MOMENTS.map(lambda at: at.isoformat() + "Z"),
    st.dates().map(str),
    st.times().map(str),
    st.uuids().map(str),
    st.text(max_size=4),
    st.sampled_from(["", "007", "+5", ".5", "5.", "-0", " 5", "true", "null", "1_0", "٣", "1e400", "nan"]),
)
INTS = st.integers(-(1 << 31), (1 << 31) - 1)
LONGS = st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.sampled_from([1 << 53, (1 << 53) + 1, 1 << 54]))
DECIMALS = st.decimals(-9_999_999, 9_999_999, places=2)
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), TEXTS),
    (pa.int32(), INTS),
    (pa.int64(), LONGS),
    (pa.float32(), SINGLES),
    (pa.float64(), st.floats()),
    (pa.decimal128(9, 2), DECIMALS),
    (pa.decimal128(38, 0), st.integers(-(10**37), 10**37).map(Decimal)),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.dates()),
    (pa.time64("us"), st.times()),
    (TIMESTAMPTZ, MOMENTS.map(lambda at: at.replace(tzinfo=UTC))),
    (pa.timestamp("us"), MOMENTS),
    (pa.binary(), st.one_of(st.binary(max_size=4), TEXTS.map(str.encode))),
    (pa.uuid(), st.uuids().map(lambda each: each.bytes)),
]
PAIRS = st.tuples(st.sampled_from(KINDS), st.sampled_from([kind for kind, _ in KINDS]))


def inside(kind: pa.DataType, depth: int) -> pa.DataType:
    """Return the type itself, in a list, or in a list of structs."""
    return (kind, pa.list_(kind), pa.list_(pa.struct([("a", kind), ("b", pa.bool_())])))[depth]


def wrapped(value: Any, depth: int) -> Any:
    """Return the value as that type has it."""
    return (value, [value, None], [{"a": value, "b": True}, None])[depth]


@given(st.data(), PAIRS, st.integers(0, 2))
def test_what_fits_is_the_same_for_all_who_ask(data: Any, pair: Any, depth: int) -> None:
    """A value alone or among others, from Kafka or from the old column, read fast or plainly."""
    (have, values), kind = pair
    assume(may_convert(have, kind))
    items = [wrapped(each, depth) for each in data.draw(st.lists(values, min_size=1, max_size=6))]
    column = pa.chunked_array([column_of(items, inside(have, depth))])
    field = pa.field("c", inside(kind, depth))
    made = _retyped(column, field)
    rows = [*range(len(items))] if made.rows is None else made.rows
    assert sorted([*rows, *made.misfits]) == [*range(len(items))]
    for row, item in enumerate(items):
        alone = _retyped(column.slice(row, 1), field)
        assert (alone.table.num_rows == 1) == (row in rows)
        plain = _plainly(item, field)
        assert (plain is None) == (row not in rows), (item, plain)
        if plain is not None:
            there = made.table.column(0).slice(rows.index(row), 1)
            assert equal_values(there, alone.table.column(0)).all()
            assert equal_values(there, pa.chunked_array([plain])).all(), (item, there)
    again = refit_by_schema(column, field.type)
    assert np.flatnonzero(np.asarray(again.is_valid())).tolist() == rows
    assert equal_values(
        pa.chunked_array([again]).take(pa.array(rows, pa.int64())), made.table.column(0)
    ).all()


def _retyped(values: pa.ChunkedArray, field: pa.Field) -> Projected:
    return project(pa.table([values], ["c"]), pa.schema([field]), GROWTH, retyped={"c"})


def _plainly(item: Any, field: pa.Field) -> pa.Array | None:
    try:
        value = in_column(item, field.type, [])
    except (ValueError, TypeError, ArithmeticError):
        return None
    table, rows = stored({"c": [value]}, [0], pa.schema([field]))
    return table["c"].combine_chunks() if rows else None


@pytest.mark.parametrize("value_format", ["json", "avro"])
@pytest.mark.parametrize(
    ("column", "have", "wanted"),
    [
        ({"type": "timestamptz", "from": "epoch_ms"}, [[1000, None], [10**17]], [1_000_000, None, None]),
        ({"type": "timestamptz", "from": "epoch_s"}, [[1]], [1_000_000]),
        ({"type": "date", "from": "epoch_s"}, [[86_400, 5]], [1, None]),
        ({"type": "long", "from": "text"}, [["5", "x"], ["6"]], [5, None, 6]),
        ({"type": "timestamptz", "fit": "truncate"}, [["1970-01-01T00:00:01.1234567Z"]], [1_123_456]),
    ],
)
def test_a_column_s_from_holds_for_what_it_held_before(
    value_format: str, column: dict[str, str], have: list[list[Any]], wanted: list[int | None]
) -> None:
    """The old column's values are converted as a record's field is; null where one cannot be."""
    value = {"format": value_format} | ({} if value_format == "json" else {"registry": "main"})
    pipeline = PipelineConfig.model_validate(
        {"name": "a", "topic": "a", "table": "a.a", "value": value, "columns": {"c": column}}
    )
    (kind,) = arrow_schema(Schema(NestedField(1, "c", declared_type(column["type"]), required=False))).types
    made = refit_of(pipeline, "c")(pa.chunked_array(have), kind)
    width = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    assert made.cast(width).to_pylist() == wanted


def test_what_no_value_can_become_is_known() -> None:
    """A boolean is nothing else; a struct keeps its fields; what is written with a fraction is no text."""
    assert not may_convert(pa.bool_(), pa.string())
    assert not may_convert(pa.float64(), pa.string())
    assert not may_convert(pa.float64(), pa.float32())
    assert not may_convert(pa.int64(), TIMESTAMPTZ)
    assert not may_convert(pa.binary(), pa.int64())
    assert not may_convert(pa.string(), pa.list_(pa.string()))
    pair = pa.struct([("a", pa.string()), ("b", pa.int64())])
    assert may_convert(pair, pa.struct([("b", pa.string()), ("a", pa.date32()), ("c", pa.bool_())]))
    assert not may_convert(pair, pa.struct([("a", pa.string())]))
    assert may_convert(pa.map_(pa.string(), pa.string()), pa.map_(pa.string(), pa.int32()))
    assert may_convert(pa.date32(), pa.string())
    assert not may_convert(pa.date32(), pa.time64("us"))
