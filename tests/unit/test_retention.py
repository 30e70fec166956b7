"""When Kafka may delete what waits."""

from __future__ import annotations

import pytest

from spark_jobs.health.retention import Retention, Waiting, headroom_ms, retention_of

NOW = 1_000_000


@pytest.mark.parametrize(
    ("config", "limits"),
    [
        ({"retention.ms": "5", "retention.bytes": "-1", "cleanup.policy": "delete"}, Retention(5, None)),
        ({"retention.ms": "-1", "retention.bytes": "7"}, Retention(None, 7)),
        ({"retention.ms": "5", "retention.bytes": "7", "cleanup.policy": "compact"}, Retention(None, None)),
        ({"retention.ms": "5", "cleanup.policy": "compact,delete"}, Retention(5, None)),
    ],
)
def test_limits_are_read_from_the_topic(config: dict[str, str], limits: Retention) -> None:
    """-1 is without limit, and a topic that is only compacted deletes by none."""
    assert retention_of(config) == limits


def left(retention: Retention, *waiting: Waiting) -> int | None:
    """Headroom at 10 bytes a record."""
    return headroom_ms(retention, waiting, bytes_per_record=10, now_ms=NOW)


def test_by_time_the_oldest_waiting_record_decides() -> None:
    """Its own time and the limit give the earliest moment, never less than nothing."""
    assert left(Retention(1000, None), Waiting(0, 1, NOW - 400), Waiting(1, 1, NOW - 900)) == 100
    assert left(Retention(1000, None), Waiting(0, 1, NOW - 5000)) == 0


def test_by_size_what_is_left_is_spent_at_the_pace_of_arrivals() -> None:
    """60 of 100 bytes came in 600 ms, so 40 last 400; a full limit leaves nothing."""
    assert left(Retention(None, 100), Waiting(0, 6, NOW - 600)) == 400
    assert left(Retention(None, 100), Waiting(0, 10, NOW - 600)) == 0


def test_nothing_at_risk_is_none() -> None:
    """Nothing waits, nothing is deleted, or the record has no time to judge by."""
    assert left(Retention(1000, 100)) is None
    assert left(Retention(None, None), Waiting(0, 5, NOW - 1)) is None
    assert left(Retention(1000, None), Waiting(0, 5, None)) is None
