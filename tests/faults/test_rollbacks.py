"""Rollbacks beside live drains, over sleeping ones, and killed: in the end every record is there once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from prove.lab.pipeline_lab import orders, progress
from prove.lab.work_loop import looping
from spark_jobs.acts.rollback import rollback
from spark_jobs.protocol.errors import CorruptLog
from spark_jobs.protocol.progress import PROPERTY_OFFSETS
from tests.support.new_lab import DEAD_LETTERS

if TYPE_CHECKING:
    from prove.lab.pipeline_lab import Lab
    from spark_jobs.acts.rollback import RolledBack
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.spark]

FEW = [*orders(0, 40), b"not json", None]
# What a drain may end with when its batch was rolled back, or the table under it.
OVERTAKEN = {None, "offsets-moved", "dead-letters-moved"}
DRAIN_POINTS = (
    "drain.after-offset-commit",
    "drain.after-tasks",
    "drain.after-parquet-written",
    "commit.after-swap",
    "dead-letters.before-swap",
    "drain.after-dead-letters",
)


def _roll_back(lab: Lab, to: int) -> RolledBack:
    with lab.connections() as connections:
        return rollback(lab.pipeline, connections, to_snapshot=to, reason="wrong rows")


def _lab(new_lab: NewLab) -> tuple[Lab, int]:
    """A table of one batch, and the snapshot to go back to."""
    lab = new_lab(FEW, partitions=2)
    lab.drain()
    first = lab.table().metadata.current_snapshot_id
    assert first is not None
    return lab, first


def test_offsets_that_were_set_by_hand_are_not_taken_over(new_lab: NewLab) -> None:
    """Set back they would seem to be those of the snapshot: its rows would stay and be drained again."""
    lab, first = _lab(new_lab)
    new_lab.produce(lab, FEW)
    lab.drain()
    _set_next_offsets(lab, lab.pipeline.table, 3)
    before = lab.table().metadata.current_snapshot_id
    with pytest.raises(CorruptLog) as noticed:
        _roll_back(lab, first)
    assert noticed.value.code == "damaged-progress"
    assert lab.table().metadata.current_snapshot_id == before


def test_offsets_of_the_dead_letters_that_were_set_by_hand_are_named(new_lab: NewLab) -> None:
    """Set forward they look like another run's commit: what the dead run owed would be left out for good."""
    lab, _ = _lab(new_lab)
    new_lab.produce(lab, FEW)
    lab.kill_at("drain.after-commit")
    _set_next_offsets(lab, DEAD_LETTERS, 60)
    with pytest.raises(CorruptLog) as noticed:
        lab.drain()
    assert noticed.value.code == "damaged-progress"


def _set_next_offsets(lab: Lab, identifier: str, offset: int) -> None:
    table = lab.table(identifier)
    document = json.loads(table.properties[PROPERTY_OFFSETS])
    (generations,) = document.values()
    (next_offsets,) = generations.values()
    next_offsets.update(dict.fromkeys(next_offsets, offset))
    with table.transaction() as transaction:
        transaction.set_properties({PROPERTY_OFFSETS: json.dumps(document)})


def _expect_whole(lab: Lab, times: int) -> None:
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.dead_letters, found.tombstones, found.lag) == (40 * times, times, times, 0)


def test_a_rollback_under_a_drain_that_sleeps_and_one_that_runs(new_lab: NewLab) -> None:
    """The sleeper finds its batch adopted, does it again with the rest; the runner's goes or comes after."""
    lab, first = _lab(new_lab)
    new_lab.produce(lab, FEW)
    with lab.stopped_at("commit.before-swap") as sleeper:
        lab.drain()
        undone = _roll_back(lab, first).undone
        assert undone.records == 42
        assert progress(lab).rollbacks == 1
        sleeper.go_on()
        assert sleeper.answer().error is None
    new_lab.produce(lab, FEW)
    runner = lab.start()
    _roll_back(lab, first)
    assert runner.answer().error in OVERTAKEN
    lab.drain()
    _expect_whole(lab, 3)


def test_rollbacks_while_drains_run(new_lab: NewLab) -> None:
    """A drain ends well or with a named error, and the drains after it fill the table again."""
    lab, first = _lab(new_lab)
    ended: set[str | None] = set()

    def drain(_number: int) -> None:
        new_lab.produce(lab, FEW)
        ended.add(lab.start().answer().error)

    with looping(drain) as drains:
        for times in range(3):
            drains.wait_for(drains.done + 1)
            _roll_back(lab, first)
            assert progress(lab).rollbacks == times + 1
    assert ended <= OVERTAKEN
    lab.drain()
    _expect_whole(lab, 1 + drains.done)
    assert lab.stray_files() == set()


def test_a_drain_stopped_anywhere_wakes_on_a_table_that_was_rolled_back(new_lab: NewLab) -> None:
    """Whatever it had done by then, it lands nothing of before; the next one has all of it."""
    lab, first = _lab(new_lab)
    times = 1
    for point in DRAIN_POINTS:
        new_lab.produce(lab, FEW)
        lab.drain()
        new_lab.produce(lab, FEW)
        times += 2
        with lab.stopped_at(point) as sleeper:
            _roll_back(lab, first)
            sleeper.go_on()
            assert sleeper.answer().error in OVERTAKEN, point
        lab.drain()
        _expect_whole(lab, times)
        assert lab.stray_files() == set(), point
