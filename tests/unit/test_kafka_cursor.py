"""When a range is done, and when waiting for it is over."""

from __future__ import annotations

from spark_jobs.kafka.chunks import QUIET_SECONDS, SHORT_LOG_GRACE_SECONDS, Cursor
from spark_jobs.protocol.offsets import OffsetRange


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _cursor_of(start: int, end: int, timeout_seconds: float = 60) -> tuple[Cursor, Clock]:
    clock = Clock()
    return Cursor(OffsetRange(0, start, end), timeout_seconds, clock), clock


def test_the_last_offset_ends_the_range() -> None:
    """A range is done when the record before its end was read."""
    cursor, _ = _cursor_of(5, 8)
    assert cursor.advance([5, 6]) == 2
    assert not cursor.is_done
    assert cursor.advance([7]) == 1
    assert cursor.is_done


def test_a_record_past_the_end_ends_the_range_and_is_not_in_it() -> None:
    """The offset before the end may hold a marker or nothing."""
    cursor, _ = _cursor_of(5, 8)
    assert cursor.advance([6, 9, 10]) == 1
    assert (cursor.is_done, cursor.first) == (True, 6)


def test_a_range_without_records_has_no_first() -> None:
    """Nothing but markers: a record past the end shows that there is nothing to come."""
    cursor, _ = _cursor_of(5, 8)
    assert cursor.advance([8]) == 0
    assert (cursor.is_done, cursor.first) == (True, None)


def test_the_logs_end_at_or_past_the_end_is_the_ranges_end() -> None:
    """A log that ends in markers ends the range."""
    cursor, _ = _cursor_of(5, 8)
    cursor.saw_log_end(8)
    assert cursor.is_done


def test_a_log_that_ends_too_early_is_waited_for_a_little() -> None:
    """Below the range's end the log's end is suspicious, and forgotten when more arrives."""
    cursor, clock = _cursor_of(5, 8)
    cursor.saw_log_end(6)
    assert (cursor.is_done, cursor.log_end, cursor.is_overdue) == (False, 6, False)
    clock.now = SHORT_LOG_GRACE_SECONDS + 1
    assert cursor.is_overdue
    cursor.advance([6])
    assert (cursor.log_end, cursor.is_overdue) == (None, False)


def test_silence_is_overdue_after_the_timeout() -> None:
    """Every record starts the timeout anew."""
    cursor, clock = _cursor_of(5, 8)
    clock.now = 59
    cursor.advance([5])
    clock.now = 118
    assert not cursor.is_overdue
    clock.now = 120
    assert cursor.is_overdue


def test_a_silence_is_asked_about_once() -> None:
    """The next record makes a new silence possible."""
    cursor, clock = _cursor_of(5, 8)
    assert not cursor.is_newly_quiet()
    clock.now = QUIET_SECONDS + 1
    assert (cursor.is_newly_quiet(), cursor.is_newly_quiet()) == (True, False)
    cursor.advance([5])
    clock.now += QUIET_SECONDS + 1
    assert cursor.is_newly_quiet()
