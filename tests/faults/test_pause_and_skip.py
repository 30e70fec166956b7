"""An operator stops a pipeline, or leaves out what cannot be drained: the table remembers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.pipeline_lab import PIPELINE, orders, progress
from spark_jobs.acts.act import pause, resume, skip
from spark_jobs.drain.drain import ended_line
from spark_jobs.protocol.errors import ConfigError, OffsetsUnavailable
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from spark_jobs.protocol.progress_parts import Skip
from spark_jobs.recovery.recover import recover
from tests.support.lake import Once

if TYPE_CHECKING:
    from prove.lab.pipeline_lab import Lab
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.spark]


def _pause(lab: Lab, reason: str = "the broker moves") -> None:
    with lab.connections() as connections:
        pause(lab.pipeline, connections, reason=reason)


def _skip(lab: Lab, *ranges: OffsetRange, reason: str = "lost") -> None:
    with lab.connections() as connections:
        skip(lab.pipeline, connections, OffsetRanges.of(ranges), reason=reason)


def test_a_pause_stops_a_drain_before_its_next_batch_and_every_one_after(new_lab: NewLab) -> None:
    """A batch under way is committed; what a dead drain left is not adopted; resumed, all of it comes in."""
    lab = new_lab(orders(0, 30), max_batch_records=10)
    result = lab.drain(fail_points=Once("drain.after-commit", lambda: _pause(lab)))
    assert (result.stopped, len(result.batches), lab.rows().num_rows) == ("paused", 1, 10)
    stood = progress(lab)
    assert stood.paused is not None
    assert (stood.paused.reason, stood.paused.actor) == ("the broker moves", "test")
    _pause(lab, "it still moves")
    new_lab.kafka.delete_topic(lab.pipeline.topic)
    idle = lab.drain()
    assert (idle.stopped, idle.batches, idle.next_offsets) == ("paused", (), {0: 10})
    assert 'by test: it still moves (./sluice resume orders --reason "...")' in ended_line(idle, 0)


def test_a_resumed_pipeline_adopts_what_was_left_and_goes_on(new_lab: NewLab) -> None:
    """Paused while a dead drain's files lay ready: no drain or recovery commits them until it is resumed."""
    lab = new_lab(orders(0, 20))
    lab.drain()
    new_lab.produce(lab, orders(20, 20))
    lab.kill_at("drain.after-parquet-written")
    _pause(lab)
    assert lab.drain().stopped == "paused"
    with lab.connections() as connections:
        (left,) = recover(lab.pipeline, connections).left
    assert left.reason == "the pipeline is paused"
    assert lab.rows().num_rows == 20
    with lab.connections() as connections:
        ended = resume(lab.pipeline, connections, reason="it has moved")
        resumed_at = lab.table().metadata_location
        assert resume(lab.pipeline, connections, reason="twice") is None
        assert lab.table().metadata_location == resumed_at
    assert ended is not None
    assert len(lab.drain().recovery.adopted) == 1
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.lag) == (40, 0)


def test_what_retention_took_is_skipped_by_the_command_the_error_names(new_lab: NewLab) -> None:
    """Only from the next offset on and within the topic; once; counted apart from what is missing."""
    lab = new_lab(orders(0, 20))
    with pytest.raises(ConfigError) as raised:
        _pause(lab)
    assert raised.value.code == "no-table-yet"
    lab.drain()
    new_lab.produce(lab, orders(20, 20))
    new_lab.kafka.delete_records(lab.pipeline.topic, {0: 30})
    with pytest.raises(OffsetsUnavailable) as passed:
        lab.drain()
    assert f"./sluice skip {PIPELINE} 0:20-30 --reason" in passed.value.hint
    for wrong, code in (
        (OffsetRange(0, 25, 30), "not-next-offset"),
        (OffsetRange(0, 19, 30), "not-next-offset"),
        (OffsetRange(0, 20, 41), "beyond-the-end"),
        (OffsetRange(1, 0, 1), "beyond-the-end"),
    ):
        with pytest.raises(ConfigError) as raised:
            _skip(lab, wrong)
        assert raised.value.code == code
    _skip(lab, OffsetRange(0, 20, 30))
    with pytest.raises(ConfigError) as raised:
        _skip(lab, OffsetRange(0, 20, 30))
    assert raised.value.code == "not-next-offset"
    assert progress(lab).skipped == (Skip(1, 0, 20, 30, "lost"),)
    lab.drain()
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.skipped, found.gone, found.lag) == (30, 10, 20, 0)
    new_lab.produce(lab, orders(40, 1))
    _skip(lab, OffsetRange(0, 40, 41))  # up to the topic's end, which is exclusive as the range's
    assert progress(lab).next_offsets == {0: 41}
