"""Replays killed, stopped, overtaken and beside drains: nothing lost, nothing doubled, nothing left over."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from prove.lab.pipeline_lab import by_offset, orders
from prove.lab.work_loop import looping
from spark_jobs.protocol.offsets import OffsetRange
from spark_jobs.replay.replay import settle_left_replays

if TYPE_CHECKING:
    from prove.lab.drain_process import DrainProcess
    from prove.lab.pipeline_lab import Lab
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.spark]

FEW = [*orders(0, 40), b"not json", None]
RANGE = OffsetRange(0, 5, 18)
WORK = f"replay {RANGE}"


def _expect_whole(lab: Lab, times: int) -> None:
    """Every record of ``times`` productions of FEW exactly once, and no file that nothing names."""
    found = lab.audit()
    assert found.is_clean, found
    assert (found.rows, found.dead_letters, found.tombstones, found.lag) == (40 * times, times, times, 0)
    assert lab.rows().num_rows == 40 * times
    assert len(by_offset(lab, lab.tables[1])) == times
    assert lab.stray_files() == set()


@pytest.mark.parametrize("point", ["replay.after-tasks", "replay.before-swap"])
def test_a_zombie_replay_changes_nothing(new_lab: NewLab, point: str) -> None:
    """Given up while it stood still, it finds the epoch moved when it goes on, and its files are gone."""
    lab = new_lab(FEW, partitions=2)
    lab.drain()
    zombie = _stopped(lab, point)
    try:
        with lab.connections() as connections:
            settled = settle_left_replays(lab.pipeline, connections)
        assert len(settled.swept) == 1
        new_lab.produce(lab, FEW)
        lab.drain()
        before = by_offset(lab)
        zombie.go_on()
        assert zombie.answer().error == "replay-overtaken"
    finally:
        zombie.kill()
    assert by_offset(lab) == before
    lab.replay(RANGE)
    _expect_whole(lab, 2)


def _stopped(lab: Lab, point: str) -> DrainProcess:
    process = lab.start(point, signal.SIGSTOP, work=WORK)
    process.wait_until_stopped()
    return process


def test_a_replay_beside_drains_and_other_replays(new_lab: NewLab) -> None:
    """Drains that commit all the time cost a replay retries, and it costs them nothing."""
    lab = new_lab(FEW, partitions=2)
    lab.drain()

    def drain(_number: int) -> None:
        new_lab.produce(lab, FEW)
        assert lab.start().answer().error is None

    with looping(drain) as drains:
        replayed = [lab.start(work=WORK).answer() for _ in range(4)]
    assert {answer.error for answer in replayed} == {None}
    lab.drain()
    _expect_whole(lab, 1 + drains.done)
