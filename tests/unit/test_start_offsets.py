"""The configured start becomes offsets once, before the first batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_jobs.config.quantities import Start, StartKind
from spark_jobs.drain.planning import resolve_start
from spark_jobs.protocol.errors import ConfigError
from spark_jobs.protocol.source import SourceState

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCE = SourceState("orders", None, None, low={0: 2, 1: 0, 2: 5}, end={0: 10, 1: 0, 2: 9})


def _nobody_asks(timestamp_ms: int) -> Mapping[int, int]:
    raise AssertionError(timestamp_ms)


def test_earliest_and_latest() -> None:
    """They are the two ends of what can be read now."""
    assert resolve_start(Start(StartKind.EARLIEST), SOURCE, _nobody_asks) == SOURCE.low
    assert resolve_start(Start(StartKind.LATEST), SOURCE, _nobody_asks) == SOURCE.end


def test_a_time_without_a_later_record_begins_at_the_end() -> None:
    """Offsets found for the time are kept between the earliest and the last stable offset."""
    asked: list[int] = []

    def found(timestamp_ms: int) -> Mapping[int, int]:
        asked.append(timestamp_ms)
        return {0: 4, 2: 12}

    assert resolve_start(Start(StartKind.TIMESTAMP, timestamp_ms=77), SOURCE, found) == {0: 4, 1: 0, 2: 9}
    assert asked == [77]


def test_offsets_not_named_begin_at_the_earliest() -> None:
    """A start may name some partitions only."""
    start = Start(StartKind.OFFSETS, offsets={2: 6})
    assert resolve_start(start, SOURCE, _nobody_asks) == {0: 2, 1: 0, 2: 6}


@pytest.mark.parametrize("offsets", [{0: 1}, {0: 11}, {3: 0}])
def test_offsets_that_kafka_does_not_have_are_refused(offsets: dict[int, int]) -> None:
    """A start outside the topic is a mistake to correct, not to round."""
    with pytest.raises(ConfigError) as raised:
        resolve_start(Start(StartKind.OFFSETS, offsets=offsets), SOURCE, _nobody_asks)
    assert raised.value.code == "start-outside-topic"
