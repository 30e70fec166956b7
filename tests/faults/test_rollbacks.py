"""A rollback beside live drains, and over one that sleeps: in the end every record is there once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.new_lab import progress
from prove.lab.pipeline_lab import orders
from spark_jobs.rollback import rollback

if TYPE_CHECKING:
    from prove.lab.new_lab import NewLab
    from prove.lab.pipeline_lab import Lab
    from spark_jobs.rollback import RolledBack

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.spark]

FEW = [*orders(0, 40), b"not json", None]


def _roll_back(lab: Lab, to: int) -> RolledBack:
    with lab.connections() as connections:
        return rollback(lab.pipeline, connections, to_snapshot=to, reason="wrong rows")


def _expect_whole(lab: Lab, times: int) -> None:
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.dead_letters, found.tombstones, found.lag) == (40 * times, times, times, 0)


def test_a_rollback_under_a_drain_that_sleeps_and_one_that_runs(new_lab: NewLab) -> None:
    """The sleeper finds its batch adopted, does it again with the rest; the runner's goes or comes after."""
    lab = new_lab(FEW, partitions=2)
    lab.drain()
    first = lab.table().metadata.current_snapshot_id
    assert first is not None
    new_lab.produce(lab, FEW)
    with lab.stopped_at("commit.before-swap", once=f"{lab.path}.slept") as sleeper:
        lab.drain()
        undone = _roll_back(lab, first).undone
        assert undone.records == 42
        assert progress(lab).rollbacks == 1
        sleeper.go_on()
        assert sleeper.answer().error is None
    new_lab.produce(lab, FEW)
    runner = lab.start()
    _roll_back(lab, first)
    assert runner.answer().error in {None, "offsets-moved", "dead-letters-moved"}
    lab.drain()
    _expect_whole(lab, 3)
