"""Cron expressions and zones: what is taken, and when the next tick is."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice, pairwise

import pytest
from dagster._utils.schedules import is_valid_cron_schedule, schedule_execution_time_iterator

from spark_jobs.config.problems import UnreadableValueError
from spark_jobs.config.quantities import next_tick_ms, parse_cron

CRONS = ("0 2 * * *", "30 2 * * *", "30 1 * * *", "0 * * * *", "*/15 * * * *", "0 9 * * 1-5", "5 1-3 * * *")
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")
# Before the clocks change in Europe and America, both ways, and once in between.
STARTS = ((2026, 3, 7), (2026, 3, 28), (2026, 10, 24), (2026, 10, 31), (2026, 6, 1))


@pytest.mark.parametrize("timezone", ZONES)
@pytest.mark.parametrize("cron", CRONS)
def test_the_next_tick_is_dagsters_own_through_every_change_of_the_clocks(cron: str, timezone: str) -> None:
    """From any moment, on a tick or between two, the next is what Dagster's scheduler takes."""
    for year, month, day in STARTS:
        start = datetime(year, month, day, 12, 1, tzinfo=UTC).timestamp()
        count = 120 if cron.startswith("*/15") else 40
        theirs = schedule_execution_time_iterator(start, cron, timezone, ascending=True)
        ticks = [round(tick.timestamp() * 1000) for tick in islice(theirs, count)]
        assert next_tick_ms(cron, timezone, round(start * 1000)) == ticks[0]
        for before, after in pairwise(ticks):
            assert next_tick_ms(cron, timezone, before) == after
            assert next_tick_ms(cron, timezone, after - 1) == after


@pytest.mark.parametrize(
    "text", ["0 2 * * *", " 0  2 * * mon-fri", "*/5 * * * *", "0 0 l * *", "0 0 29 2 *", "0 0 * * 5#2", "off"]
)
def test_what_is_taken_dagster_takes_too(text: str) -> None:
    """One expression that Dagster refuses would leave the code location without definitions."""
    cron = parse_cron(text)
    assert cron is None or is_valid_cron_schedule(cron)


@pytest.mark.parametrize(
    "text", ["", "daily", "* * * *", "0 0 30 2 *", "0 25 * * *", "0 2 * * * *", "@daily x"]
)
def test_what_never_ticks_is_refused(text: str) -> None:
    """Among them seconds, a sixth field, which Dagster does not know."""
    with pytest.raises(UnreadableValueError, match=r"cron expression|never run"):
        parse_cron(text)
