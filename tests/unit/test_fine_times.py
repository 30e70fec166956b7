"""Times finer than microseconds: told by what a person declared, cut only where a person says so."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.config.columns import ColumnSettings
from spark_jobs.config.settings import PipelineConfig
from tests.support.shaped import Shaped

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECONDS = st.integers(-2_000_000_000, 4_000_000_000)


def flat(kind: str, **column: Any) -> Shaped:
    """Return a table of JSON values with a time."""
    columns = {"at": ColumnSettings(type=kind, **column)}
    return Shaped(PipelineConfig(name="a", topic="t", table="l.a", columns=columns))


def instant(ns: int) -> str:
    """Return a time as .NET, Go or Java write it."""
    seconds, rest = divmod(ns, 10**9)
    return f"{(EPOCH + timedelta(seconds=seconds)).strftime('%Y-%m-%dT%H:%M:%S')}.{rest:09d}Z"


def value(text: str) -> bytes:
    """Return a record with it."""
    return json.dumps({"at": text}).encode()


@given(st.lists(st.tuples(SECONDS, st.integers(0, 10**9 - 1)), min_size=1, max_size=5))
def test_a_truncated_time_is_rounded_down(times: list[tuple[int, int]]) -> None:
    """To the microsecond, before 1970 too; audits find it right."""
    every = [seconds * 10**9 + rest for seconds, rest in times]
    made = flat("timestamptz", fit="truncate").make(*(value(instant(ns)) for ns in every))
    assert made.rows.column("at").to_pylist() == [EPOCH + timedelta(microseconds=ns // 1000) for ns in every]


@pytest.mark.parametrize("kind", ["timestamptz", "timestamp", "time"])
def test_zeros_behind_a_microsecond_are_no_digits(kind: str) -> None:
    """A text with seven digits whose last is a zero says a whole microsecond."""
    texts = {
        "timestamptz": "2024-02-29T12:00:00.{}Z",
        "timestamp": "2024-02-29T12:00:00.{}",
        "time": "12:00:00.{}",
    }
    made, same = (
        flat(kind).make(*(value(texts[kind].format(digits)) for digits in every))
        for every in (("1234560", "123456000", "123456"), ("123456",) * 3)
    )
    assert made.rows.column("at").equals(same.rows.column("at"))
    assert made.rows.num_rows == 3


def test_a_letter_names_the_ways_in() -> None:
    """A value with more digits says what to declare; others of its kind are rows."""
    made = flat("timestamptz").make(
        *map(value, ("2024-02-29T12:00:00.123456Z", "2024-02-29T12:00:00.1234567Z"))
    )
    (letter,) = made.dead_letters.to_pylist()
    for way in ("finer than a microsecond", "string", "long", "`fit: truncate`"):
        assert way in letter["error"]
    assert made.rows.num_rows == 1


def test_a_declared_text_keeps_all_digits() -> None:
    """As it was written."""
    made = flat("string").make(value("2024-02-29T12:00:00.1234567Z"))
    assert made.rows.column("at").to_pylist() == ["2024-02-29T12:00:00.1234567Z"]


@pytest.mark.parametrize(
    ("kind", "column"), [("string", {}), ("date", {}), ("timestamptz", {"from": "text"})]
)
def test_only_times_as_they_are_can_be_truncated(kind: str, column: dict[str, str]) -> None:
    """Everything else is a mistake of the configuration."""
    with pytest.raises(ValueError, match=r"truncate|fit"):
        ColumnSettings(type=kind, fit="truncate", **column)
