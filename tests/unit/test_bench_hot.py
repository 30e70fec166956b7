"""How long a record waited until the hot bench saw it."""

from __future__ import annotations

from bench.hot import _percentiles


def test_a_record_counts_until_the_first_look_at_it_or_a_later_one() -> None:
    """Of two looks the second shows both records."""
    assert _percentiles([(1, 10.0), (2, 11.0)], [(0, 10.5), (2, 11.5)], 20.0) == (1500.0, 1500.0)


def test_records_that_no_look_found_count_until_the_looking_ended() -> None:
    """A busy machine may give a follower no look at all."""
    assert _percentiles([(1, 10.0)], [], 12.0) == (2000.0, 2000.0)
