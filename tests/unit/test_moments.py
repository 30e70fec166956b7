"""A moment is a snapshot's id or a time in ISO 8601, and nothing is guessed."""

from __future__ import annotations

import pytest

from spark_jobs.lake.moments import Moment, iso_of_ms, parse_moment
from spark_jobs.protocol.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("3051729675574597004", Moment(snapshot_id=3051729675574597004)),
        ("1970-01-01T00:00:01.5Z", Moment(at_ms=1500)),
        ("1970-01-01T02:00:01+02:00", Moment(at_ms=1000)),
        ("1970-01-02", Moment(at_ms=86_400_000)),
        ("1970-01-01 00:00:02", Moment(at_ms=2000)),
        ("1969-12-31T23:59:59.999Z", Moment(at_ms=-1)),
    ],
)
def test_digits_are_a_snapshot_and_the_rest_a_time(text: str, moment: Moment) -> None:
    """A time without a zone is UTC."""
    assert parse_moment(text) == moment


@pytest.mark.parametrize("text", ["", "yesterday", "-5", "12:00", "2026-13-01", "٣"])
def test_what_is_neither_is_refused(text: str) -> None:
    """With the forms there are."""
    with pytest.raises(ConfigError) as refused:
        parse_moment(text)
    assert refused.value.code == "unknown-moment"


def test_a_time_is_told_as_it_is_read() -> None:
    """To the millisecond, before 1970 too."""
    for at_ms in (0, 1500, -1, 1_767_225_600_123):
        assert parse_moment(iso_of_ms(at_ms)).at_ms == at_ms
