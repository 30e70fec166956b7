"""A drain, a recovery or a checkpoint killed at any named point loses nothing and doubles nothing.

One table goes through many kills here, on a Spark server; `tests/prove` kills on a new table each time.
"""

from __future__ import annotations

from shutil import rmtree
from typing import TYPE_CHECKING

import pytest

from prove.crash.jobs import CHECKPOINT, DRAIN, RECOVERY, RECOVERY_OF_HALF, RECOVERY_OF_LANDED
from prove.lab.pipeline_lab import orders, progress
from spark_jobs.books.fold import checkpoint
from spark_jobs.books.history import State, history

if TYPE_CHECKING:
    from prove.lab.pipeline_lab import Lab
    from tests.support.new_lab import NewLab

pytestmark = [pytest.mark.faults, pytest.mark.kafka, pytest.mark.spark]

# What prove kills at; in a split it is Spark's worker that would die.
POINTS = {point: promise for point, promise in DRAIN.points.items() if not point.startswith("split.")}
# Where a recovery dies, after the drain that died there.
RECOVERY_POINTS = {
    point: job.dies_at
    for job in (RECOVERY, RECOVERY_OF_LANDED, RECOVERY_OF_HALF)
    for point in job.points
    if point.startswith("recover.")
}
BROKEN = [b"not json", b"", b"null", b"\xff\xfe\x00", b'{"id": "a number elsewhere"}']
FEW = [*orders(0, 40), *BROKEN, None]


def _expect_nothing_lost(lab: Lab, times: int) -> None:
    """Every record of ``times`` productions of FEW exactly once, and no file that nothing names."""
    found = lab.audit()
    assert found.is_clean, found
    counted = (found.rows, found.dead_letters, found.tombstones, found.lag)
    assert counted == (40 * times, len(BROKEN) * times, times, 0)
    assert lab.stray_files() == set()


def test_drains_killed_in_later_batches(new_lab: NewLab) -> None:
    """One table, killed at every point in turn, the state folder lost each time: nothing adds up."""
    lab = new_lab(FEW, partitions=2)
    lab.drain()
    for point, promise in POINTS.items():
        new_lab.produce(lab, FEW)
        lab.kill_at(point)
        rmtree(lab.config.home)
        result = lab.drain()
        ((repairs,), recovery) = promise.repairs, result.recovery
        assert (len(recovery.adopted), len(result.batches)) == (repairs.adopted, repairs.committed), point
        assert lab.stray_files() == set(), point
    _expect_nothing_lost(lab, 1 + len(POINTS))


def test_recoveries_killed_as_well(new_lab: NewLab) -> None:
    """Kill a drain, kill its recovery at each of its points, recover: the same as without a crash."""
    lab = new_lab(FEW, partitions=2)
    lab.drain()
    for point, drain_point in RECOVERY_POINTS.items():
        new_lab.produce(lab, FEW)
        lab.kill_at(drain_point)
        lab.kill_at(point)
        lab.drain()
        assert lab.stray_files() == set(), point
    _expect_nothing_lost(lab, 1 + len(RECOVERY_POINTS))


def test_killed_checkpoints_enter_each_attempt_once(new_lab: NewLab) -> None:
    """Killed at each of its points with drains in between: nothing is lost, and the books balance."""
    lab = new_lab(FEW, partitions=2)
    lab.drain()
    for point in CHECKPOINT.points:
        lab.kill_at(point, work="checkpoint")
        new_lab.produce(lab, FEW)
        assert len(lab.drain().batches) == 1
    _expect_nothing_lost(lab, 1 + len(CHECKPOINT.points))
    with lab.connections() as connections:
        checkpoint(lab.pipeline, connections)
        lines = history(lab.pipeline, connections, limit=100)
        assert connections.txlog.attempts(str(lab.table().metadata.table_uuid)) == ()
    assert len({line.entry.attempt for line in lines}) == len(lines) == 1 + len(CHECKPOINT.points)
    assert {line.state for line in lines} == {State.LANDED}
    drained = sum(line.entry.counts.balance.offsets for line in lines)
    assert drained == sum(progress(lab).next_offsets.values())
    assert lab.rows("lab.sluice_batches").num_rows == len(lines)
