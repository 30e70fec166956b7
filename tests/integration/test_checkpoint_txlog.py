"""Folding a real log: history is kept, recovery sees no difference."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from spark_jobs.checkpoint_txlog import checkpoint, finished_attempts
from spark_jobs.core.txlog_checkpoint import merged
from tests.support.recovery_scene import FailAt, Killed

if TYPE_CHECKING:
    from tests.support.recovery_scene import Scene


def test_checkpoint_folds_what_is_finished(scene: Scene) -> None:
    """Finished attempts become lines, unfinished ones stay, and recovery sees no difference."""
    for start in range(0, 40, 10):
        scene.leave(start, start + 10, 4)
        scene.recover()
    left = scene.leave(40, 50, 3)
    assert finished_attempts(scene.pipeline, scene.connections) == 4
    result = checkpoint(scene.pipeline, scene.connections)
    assert (result.folded_attempts, result.sequence) == (4, 1)
    assert (result.objects_before, result.objects_after) == (4 * 6 + 3, 3 + 1)
    assert result.bytes_after < result.bytes_before
    assert [attempt.uuid for attempt in scene.unfinished()] == [left.batch.attempt]
    again = checkpoint(scene.pipeline, scene.connections)
    assert (again.folded_attempts, again.sequence) == (0, None)
    (only,) = scene.connections.txlog.checkpoints(left.table_uuid)
    assert [line.balance.rows for line in only.attempts] == [10] * 4


@pytest.mark.parametrize("point", ["checkpoint.after-write", "checkpoint.after-delete"])
def test_checkpoint_killed_anywhere_keeps_the_history(scene: Scene, point: str) -> None:
    """A fold that dies is repeated, and each attempt is in the history once."""
    request = scene.leave(0, 10, 4)
    scene.recover()
    with pytest.raises(Killed):
        checkpoint(scene.pipeline, replace(scene.connections, fail_points=FailAt(point)))
    checkpoint(scene.pipeline, scene.connections)
    lines = merged(scene.connections.txlog.checkpoints(request.table_uuid))
    assert [line.attempt for line in lines] == [request.batch.attempt]
    assert scene.connections.txlog.attempts(request.table_uuid) == ()
