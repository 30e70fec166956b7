"""What a column holds of a value, by the rules of drains and by those of audits, which share no line."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import inf, nan
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.schema.arrow_schema import column_of
from spark_jobs.values import plain
from spark_jobs.values.exact import converted, from_epoch, may_convert, placed
from spark_jobs.values.literals import nearest_single, parse_date, parse_local, parse_time, parse_zoned
from spark_jobs.values.ranges import bounds, is_certain
from tests.property.test_retyped_values import KINDS

_CUTS = [
    *(sign * 2**bits + near for bits in (0, 8, 24, 31, 53, 63) for near in (-1, 0, 1) for sign in (1, -1)),
    *(sign * 10**digits + near for digits in (9, 18, 37, 38) for near in (-1, 0, 1) for sign in (1, -1)),
]
_EDGES = [
    edge + near for kind in (pa.date32(), pa.timestamp("us")) for edge in bounds(kind) for near in (-1, 0, 1)
]
INTEGERS = st.one_of(st.integers(-(1 << 66), 1 << 66), st.sampled_from(_CUTS), st.sampled_from(_EDGES))
DATES = st.one_of(
    st.dates().map(str),
    st.sampled_from(["0000-12-31", "0001-01-01", "9999-12-31", "2023-02-29", "2000-02-29"]),
)
CLOCKS = st.one_of(
    st.times().map(str),
    st.sampled_from(
        ["", "12", "24:00:00", "23:59:60", "23:59:59.9999990", "00:00:00.0000001", "12:3", "1230"]
    ),
)
ZONES = st.sampled_from(["", "Z", "+00:00", "-23:59", "+23:59", "+0530", "-08", "+24:00", "+05:60", " Z"])
TIMES = st.tuples(DATES, st.sampled_from(["T", " ", "t", ""]), CLOCKS, ZONES).map("".join)


def _plain_or_none(read: Any, value: Any) -> Any:
    try:
        return read(value)
    except plain.NO_VALUE:
        return None


@given(st.one_of(TIMES, CLOCKS, DATES))
@example("0000-12-31T23:59:59-23:59")
@example("9999-12-31T23:59:59.999999-00:01")
@example("2024-02-29T12:00:00+05:60")
@example("2024-02-29T12:00:00.1234567Z")
@example("12:00:00.1234567")
def test_a_text_is_the_same_time_to_both(text: str) -> None:
    """Or none: with a zone and without, a date, and a time of day."""
    for kind, parse in (
        (pa.timestamp("us", "UTC"), parse_zoned),
        (pa.timestamp("us"), parse_local),
        (pa.date32(), parse_date),
        (pa.time64("us"), parse_time),
    ):
        assert parse(text) == _plain_or_none(plain.scalar(kind), text)  # type: ignore[operator]
        if not pa.types.is_time(kind):  # of which Arrow reads no text as strictly
            made, misfits = placed(pa.array([text]), kind)
            assert (made[0].as_py() is None) == bool(misfits) == (parse(text) is None)  # type: ignore[operator]


@given(INTEGERS)
@example(-719_163)
@example(2_932_897)
@example(-62_135_596_800_000_001)
@example(253_402_300_799_999_999)
@example(253_402_300_800_000_000)
@example(86_400_000_000)
@example(1 << 31)
@example(1 << 63)
def test_a_number_is_in_the_same_range_to_both(number: int) -> None:
    """Of bits, of days, of a day's microseconds, and of the years 1 to 9999."""
    for kind, read in (
        (pa.int32(), lambda each: plain.integer(each, 32)),
        (pa.int64(), lambda each: plain.integer(each, 64)),
        (pa.date32(), plain.day),
        (pa.time64("us"), plain.clock),
        (pa.timestamp("us"), plain.local),
        (pa.timestamp("us", "UTC"), plain.instant),
    ):
        first, last = bounds(kind)
        made = _plain_or_none(read, number)
        assert (made is not None) == (first <= number <= last)
        if made is not None:
            stored = pa.int32() if pa.types.is_date32(kind) or pa.types.is_int32(kind) else pa.int64()
            array = pa.array([number], stored).cast(kind)
            assert is_certain(array)
            assert array[0].as_py() == made


@given(INTEGERS, st.sampled_from([1, 1000, 1_000_000]))
def test_a_count_since_1970_is_the_same_time_to_both(number: int, unit_us: int) -> None:
    """In seconds, milliseconds or microseconds; a date is only where a day begins."""
    if not -(1 << 63) <= number < 1 << 63:
        return
    for kind in (pa.timestamp("us"), pa.date32()):
        made, misfits = from_epoch(pa.array([number], pa.int64()), unit_us, kind)
        time = _plain_or_none(plain.local, number * unit_us)
        is_day = time is not None and time == time.replace(hour=0, minute=0, second=0, microsecond=0)
        wanted = time if pa.types.is_timestamp(kind) else time.date() if is_day else None  # type: ignore[union-attr]
        assert (made[0].as_py(), bool(misfits)) == (wanted, wanted is None)


@pytest.mark.parametrize("number", [inf, -inf, nan, -0.0, 1.5])
def test_a_single_is_the_same_double_to_both(number: float) -> None:
    """One that is infinite too, or no number, or less than nothing."""
    made = converted(pa.array([number], pa.float32()), pa.float64())
    assert repr(made[0].as_py()) == repr(plain.in_column(number, pa.float64(), [])) == repr(number)


@given(st.data(), st.sampled_from(KINDS), st.sampled_from([kind for kind, _ in KINDS]))
def test_a_value_in_another_type_is_the_same_to_both(data: Any, have: Any, kind: pa.DataType) -> None:
    """Whatever the two types: the same value, or none, alone and among others."""
    if have[0] == kind or not may_convert(have[0], kind):
        return
    items = data.draw(st.lists(have[1], min_size=1, max_size=4))
    made = converted(column_of(items, have[0]), kind)
    wanted = [_plain_or_none(lambda item: plain.in_column(item, kind, []), item) for item in items]
    for row, value in enumerate(wanted):
        try:
            array = column_of([value], kind)
        except (pa.ArrowInvalid, OverflowError):
            array = pa.nulls(1, kind)
        assert repr(made[row].as_py()) == repr(array[0].as_py()), (items[row], kind)


@given(
    st.integers(-(10**38) + 1, 10**38 - 1),
    st.sampled_from([pa.int64(), pa.decimal128(38, 0), pa.decimal128(38, 9)]),
    st.integers(0, 38).flatmap(lambda scale: st.tuples(st.integers(max(scale, 1), 38), st.just(scale))),
)
@example(2_042_549_721_164_595_233_338_935_999_035_392_698, pa.decimal128(38, 0), (38, 7))
@example(11, pa.int64(), (38, 38))
@example(99_999_999_999_999_999_999_999_999_995_000_000_000, pa.decimal128(38, 9), (1, 0))
def test_a_decimal_has_the_same_digits_or_no_value(
    number: int, have: pa.DataType, size: tuple[int, int]
) -> None:
    """Also where Arrow makes another number of one that has no room for more digits behind the point."""
    scale = have.scale if pa.types.is_decimal(have) else 0
    if pa.types.is_integer(have):
        number %= 1 << 63
    kind = pa.decimal128(*size)
    exact = Decimal(f"{number}E-{scale}")  # `scaleb` would round to 28 digits
    made, misfits = placed(pa.array([exact if scale else number], have), kind)
    wanted = _plain_or_none(plain.decimals(kind), exact)
    assert (made[0].as_py(), bool(misfits)) == (wanted, wanted is None)


@given(
    st.one_of(
        st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda each: (each, each)),
        st.floats(2.0**-140, 2.0**100).map(
            lambda each: (float(np.float32(each)), float(np.nextafter(np.float32(each), np.float32(np.inf))))
        ),
    ),
    st.sampled_from([Fraction(0), Fraction(1, 10**30), Fraction(-1, 10**30)]),
)
def test_the_nearest_number_of_32_bits_is_the_nearest(ends: tuple[float, float], beside: Fraction) -> None:
    """Of what lies between two of them, too close to the middle for a double to tell on which side."""
    low, high = (Fraction(each) for each in ends)
    exact = (low + high) / 2 * (1 + beside)
    text = (
        f"{Decimal(exact.numerator) / Decimal(exact.denominator):f}"
        if exact.denominator == 1
        else _digits(exact)
    )
    for near in (nearest_single(text), plain.nearest(Decimal(text), pa.float32())):
        assert abs(Fraction(near) - exact) == min(abs(low - exact), abs(high - exact))


def _digits(exact: Fraction) -> str:
    """Return all digits of a fraction that has an end."""
    scale = exact.denominator.bit_length() + 100
    number = exact * 10**scale
    assert number.denominator == 1
    return f"{number.numerator}e-{scale}"


@pytest.mark.parametrize(
    "text", ["12345678-1234-1234-1234-1234567890AB", "12345678123412341234123456789012", "x"]
)
def test_a_uuid_is_the_same_to_both(text: str) -> None:
    """In its five groups of digits alone."""
    made, misfits = placed(pa.array([text]), pa.uuid())
    wanted = _plain_or_none(plain.scalar(pa.uuid()), text)
    assert (made.storage[0].as_py(), bool(misfits)) == (wanted, wanted is None)


def test_what_a_column_has_no_field_for_is_told_at_any_depth() -> None:
    """Of objects inside lists and maps, too: else an audit finds a row right that a drain refuses."""
    point = pa.struct([("x", pa.int64())])
    for kind, item in (
        (point, {"x": 1, "y": 2}),
        (pa.list_(point), [{"x": 1, "y": 2}]),
        (pa.map_(pa.string(), point), {"k": {"x": 1, "y": 2}}),
        (pa.struct([("all", pa.list_(point))]), {"all": [{"x": 1, "y": 2}]}),
    ):
        beside: list[Any] = []
        plain.in_column(item, kind, beside)
        assert beside == [2]


@pytest.mark.parametrize(("number", "is_read"), [(1 << 130, True), (-(1 << 132), True), (1 << 133, False)])
def test_a_text_is_a_number_of_up_to_forty_digits_to_both(number: int, is_read: bool) -> None:
    """One that is longer is none, whatever a column would hold."""
    wanted = float(number) if is_read else None
    assert converted(pa.array([str(number)]), pa.float64()).to_pylist() == [wanted]
    assert _plain_or_none(lambda text: plain.in_column(text, pa.float64(), []), str(number)) == wanted
