"""A record that kills the task which decodes it is found by halving, named, and left out by one command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.kafka_server import Record
from prove.lab.pipeline_lab import orders, progress
from spark_jobs.acts.act import skip
from spark_jobs.protocol.errors import BadRecord
from spark_jobs.protocol.offsets import OffsetRange, OffsetRanges
from tests.support.dying_worker import DiesOf

if TYPE_CHECKING:
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.spark]


def test_the_record_a_worker_dies_of_is_named(new_lab: NewLab) -> None:
    """What is before it is committed in halves, the error has its offset and the command that skips it."""
    lab = new_lab([Record(value, partition=n % 2) for n, value in enumerate(orders(0, 16))], partitions=2)
    poison = DiesOf(1, 5, lab.path.parent / "deaths")
    with pytest.raises(BadRecord) as raised:
        lab.drain(fail_points=poison)
    assert raised.value.code == "poison-record"
    assert (raised.value.where["partition"], raised.value.where["offset"]) == ("1", "5")
    assert "./sluice skip orders 1:5-6 --reason" in raised.value.hint
    assert progress(lab).next_offsets == {0: 8, 1: 5}
    assert lab.rows().num_rows == 13
    assert len(poison.ranges()) <= 5, "a batch of 16 records is halved four times"
    new_lab.produce(lab, [Record(value, partition=1) for value in orders(16, 4)])
    poison.deaths.unlink()
    with pytest.raises(BadRecord):
        lab.drain(fail_points=poison)
    assert poison.ranges() == ["split.decode-1:5-6"], "the log remembers what the run before closed in on"
    with lab.connections() as connections:
        skip(lab.pipeline, connections, OffsetRanges.of([OffsetRange(1, 5, 6)]), reason="kills the decoder")
    lab.drain(fail_points=poison)
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.skipped, found.lag) == (19, 1, 0)
    assert lab.stray_files() == set()
