"""Folding a real log into real books: history is kept, each attempt once, recovery sees no difference."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from spark_jobs.books.entries import books_of
from spark_jobs.books.fold import checkpoint
from spark_jobs.books.history import State, history
from tests.support.recovery_scene import FailAt, Killed

if TYPE_CHECKING:
    from tests.support.recovery_scene import Scene


def booked(scene: Scene) -> list[str]:
    """Attempts in the books, doubles included."""
    attempts = scene.lake.load("sluice_batches").scan(selected_fields=("attempt",)).to_arrow()
    return sorted(attempts.column("attempt").to_pylist())


def finish(scene: Scene, start: int, end: int) -> str:
    """An attempt that was left and settled; its uuid."""
    request = scene.leave(start, end, 4)
    scene.recover()
    return request.batch.attempt


def test_checkpoint_folds_what_is_finished(scene: Scene) -> None:
    """Finished attempts get their rows in the books, unfinished ones stay, recovery sees no difference."""
    attempts = sorted(finish(scene, start, start + 10) for start in range(0, 40, 10))
    left = scene.leave(40, 50, 3)
    result = checkpoint(scene.pipeline, scene.connections)
    assert (result.books, result.folded_attempts, result.rows_added) == (books_of(scene.lake.name()), 4, 4)
    assert (result.objects_before, result.objects_after) == (4 * 6 + 3, 3)
    assert booked(scene) == attempts
    assert [attempt.uuid for attempt in scene.unfinished()] == [left.batch.attempt]
    again = checkpoint(scene.pipeline, scene.connections)
    assert (again.folded_attempts, again.rows_added, again.snapshot_id) == (0, 0, None)
    rows = scene.lake.load("sluice_batches").scan().to_arrow().to_pylist()
    assert {(row["rows"], row["offsets"], row["landed"], row["actor"]) for row in rows} == {
        (10, 10, True, "tests")
    }


@pytest.mark.parametrize("point", [f"checkpoint.{name}" for name in (
    "after-files", "before-swap", "after-swap", "after-entered", "after-delete",
)])  # fmt: skip
def test_checkpoint_killed_anywhere_enters_each_attempt_once(scene: Scene, point: str) -> None:
    """A fold that dies is repeated, and each attempt is in the books once and in the log no more."""
    attempts = sorted(finish(scene, start, start + 10) for start in (0, 10))
    with pytest.raises(Killed):
        checkpoint(scene.pipeline, replace(scene.connections, fail_points=FailAt(point)))
    checkpoint(scene.pipeline, scene.connections)
    assert booked(scene) == attempts
    assert scene.connections.txlog.objects(str(scene.lake.load().metadata.table_uuid)) == (0, 0)


class FoldsBetween:
    """Runs another fold when the first one is about to commit."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.rows_added = -1

    def reach(self, name: str) -> None:
        if name == "checkpoint.before-swap" and self.rows_added < 0:
            self.rows_added = 0
            finish(self.scene, 10, 20)
            self.rows_added = checkpoint(self.scene.pipeline, self.scene.connections).rows_added


def test_two_folds_at_once_enter_each_attempt_once(scene: Scene) -> None:
    """A fold that another one overtakes adds only what is still lacking, here nothing."""
    finish(scene, 0, 10)
    between = FoldsBetween(scene)
    result = checkpoint(scene.pipeline, replace(scene.connections, fail_points=between))
    assert (between.rows_added, result.rows_added) == (2, 0)
    assert len(set(booked(scene))) == len(booked(scene)) == 2


def test_history_shows_books_and_log_as_one(scene: Scene) -> None:
    """Newest first, folded and unfolded attempts alike, each once, also while a fold is between the two."""
    clock = iter(range(1, 100))
    for start in (0, 10, 20):
        request = scene.lake.request(start, start + 10)
        planned_us = request.batch.ingested_at_us + next(clock) * 1_000_000
        dated = replace(request, batch=replace(request.batch, ingested_at_us=planned_us))
        scene.log(dated, 4 if start < 20 else 3)
        scene.recover()
        if start == 0:
            dies = FailAt("checkpoint.after-entered")
            with pytest.raises(Killed):
                checkpoint(scene.pipeline, replace(scene.connections, fail_points=dies))
    lines = history(scene.pipeline, scene.connections, limit=10)
    assert [str(line.entry.ranges) for line in lines] == ["0:20-30", "0:10-20", "0:0-10"]
    assert [line.state for line in lines] == [State.UNFINISHED, State.LANDED, State.LANDED]
    assert lines[0].phase == "FlushStart"
    assert history(scene.pipeline, scene.connections, limit=1) == lines[:1]
    assert history(scene.pipeline, scene.connections, limit=10, kinds=("pause",)) == ()
    checkpoint(scene.pipeline, scene.connections)
    folded = history(scene.pipeline, scene.connections, limit=10)
    assert [(line.entry, line.state) for line in folded] == [(line.entry, line.state) for line in lines]
