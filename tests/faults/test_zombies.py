"""A drain that is stopped, replaced and continued, or run twice at once: one wins, nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from prove.lab.pipeline_lab import orders

if TYPE_CHECKING:
    from prove.lab.pipeline_lab import Lab
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.spark]

FEW = [*orders(0, 40), b"not json", None]
# Where the zombie is stopped, and what it reports when it goes on: a conflict, or that it has landed, since
# its replacement adopted its files under its own attempt.
STOPS = {
    "drain.after-flush-start": "offsets-moved",
    "drain.after-tasks": "offsets-moved",
    "drain.after-parquet-written": None,
    "commit.before-swap": None,
    "commit.after-swap": None,
    "dead-letters.before-swap": None,
}


def _expect_whole(lab: Lab, times: int) -> None:
    """Every record once, every file that is named readable, none left over."""
    lab.drain()
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.dead_letters, found.tombstones, found.lag) == (40 * times, times, times, 0)
    assert lab.rows().num_rows == 40 * times
    assert lab.stray_files() == set()


@pytest.mark.parametrize("point", STOPS)
def test_a_zombie_of_a_tables_first_batch(new_lab: NewLab, point: str) -> None:
    """Its replacement has adopted or redone the batch, and swept: the zombie changes nothing."""
    lab = new_lab(FEW, partitions=2)
    with lab.stopped_at(point) as zombie:
        lab.drain()
        zombie.go_on()
        assert zombie.answer().error == STOPS[point]
    _expect_whole(lab, 1)


@pytest.mark.parametrize("point", ["drain.after-tasks", "commit.before-swap"])
def test_a_zombie_that_wakes_many_commits_later(new_lab: NewLab, point: str) -> None:
    """The table has moved on by several batches, and stays where it is."""
    lab = new_lab(FEW, partitions=2)
    lab.drain()
    new_lab.produce(lab, FEW)
    with lab.stopped_at(point) as zombie:
        for _ in range(3):
            lab.drain()
            new_lab.produce(lab, FEW)
        zombie.go_on()
        answer = zombie.answer()
    assert answer.error == STOPS[point]
    # One that finds itself landed has nothing left to do: the topic's end when it began is long passed.
    assert answer.repairs.committed == (0 if answer.error else 1)
    _expect_whole(lab, 5)


def test_two_drains_at_once(new_lab: NewLab) -> None:
    """Started together on one range: one commits each batch, the other has a conflict, or lost its tasks."""
    lab = new_lab(FEW, partitions=2)
    for times in (1, 2):
        answers = [process.answer() for process in [lab.start(), lab.start()]]
        stopped = {answer.error for answer in answers} - {None}
        assert stopped <= {"offsets-moved", "dead-letters-moved", "taken-over"}, answers
        assert None in {answer.error for answer in answers}, answers
        _expect_whole(lab, times)
        new_lab.produce(lab, FEW)


def test_a_spark_worker_killed_in_the_middle_of_a_split(new_lab: NewLab) -> None:
    """Spark tries the task again, the batch is whole, and the first try's files are swept."""
    lab = new_lab(FEW, partitions=2)
    answer = lab.start("split.after-chunk", once=str(lab.path.parent / "killed")).answer()
    assert (answer.error, answer.repairs.committed) == (None, 1)
    assert (lab.path.parent / "killed").exists()
    assert lab.stray_files() == set()
    _expect_whole(lab, 1)
