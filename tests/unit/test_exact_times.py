"""Times that expressions come to are times that everybody can read, or no value of the column."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_jobs.values.exact import placed

DAYS = {"first": -719_162, "last": 2_932_896}
SECONDS = {"first": -62_135_596_800, "last": 253_402_300_799}
ZONED = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.timestamp("s"), pa.timestamp("us")),
        (pa.timestamp("us"), pa.timestamp("us")),
        (ZONED, ZONED),
    ],
)
def test_a_time_outside_the_years_1_to_9999_fits_no_column(values: pa.DataType, kind: pa.DataType) -> None:
    """The second before and the one after are misfits, named as they are counted; the ends are values."""
    per = 1 if values == pa.timestamp("s") else 1_000_000
    first, last = SECONDS["first"] * per, SECONDS["last"] * per
    made, misfits = placed(pa.array([first - 1, first, None, last, last + per], values), kind)
    assert made.type == kind
    assert [each.is_valid for each in made] == [False, True, False, True, False]
    assert set(misfits) == {0, 4}
    assert str(first - 1) in misfits[0]


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us")])
def test_a_day_outside_the_years_1_to_9999_fits_no_column(kind: pa.DataType) -> None:
    """Of a date or a timestamp alike."""
    days = [DAYS["first"] - 1, DAYS["first"], DAYS["last"], DAYS["last"] + 1]
    made, misfits = placed(pa.array(days, pa.date32()), kind)
    assert [each.is_valid for each in made] == [False, True, True, False]
    assert set(misfits) == {0, 3}
