"""Rows and offsets go back together in one commit, and nobody who planned before can undo it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from spark_jobs.acts.rollback import rollback
from spark_jobs.commit.anchor import check_anchor
from spark_jobs.lake.tables import dead_letters_of, progress_of
from spark_jobs.protocol.errors import CommitConflict, ConfigError, OffsetsUnavailable, SourceChanged
from spark_jobs.protocol.progress_parts import Skip
from spark_jobs.protocol.source import SourceState
from tests.support.recovery_scene import FailAt, Killed, Scene, make_scene

if TYPE_CHECKING:
    from pathlib import Path

    from spark_jobs.acts.rollback import RolledBack
    from tests.support.lake import Lake


@pytest.fixture
def scene(lake_with_history: Lake, tmp_path: Path) -> Scene:
    """A pipeline over an empty table."""
    return make_scene(lake_with_history, str(tmp_path / "log"))


def _roll_back(scene: Scene, to: int, point: str = "", *, force: bool = False) -> RolledBack:
    connections = replace(scene.connections, fail_points=FailAt(point))
    return rollback(scene.pipeline, connections, to_snapshot=to, reason="wrong", force=force)


def _set_main_back(scene: Scene, snapshot_id: int) -> None:
    with scene.lake.load().manage_snapshots() as manage:
        manage.create_branch(snapshot_id, "main")


def test_rows_offsets_and_dead_letters_go_back_and_come_again(scene: Scene) -> None:
    """What is drained afterwards is in the table once, and its dead letters too."""
    lake = scene.lake
    first = lake.drain(0, 10, dead_letters=[4])
    lake.drain(10, 20, dead_letters=[15])
    lake.drain(0, 5, partition=1)
    before = lake.load().metadata.current_snapshot_id
    done = _roll_back(scene, first.snapshot_id)
    assert [str(r) for r in done.undone] == ["0:10-20", "1:0-5"]
    assert lake.offsets() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    progress = progress_of(lake.load())
    assert (progress.next_offsets, progress.rollbacks) == ({0: 10, 1: 0}, 1)
    assert progress.last_drain is not None
    assert lake.load().metadata.current_snapshot_id not in {before, first.snapshot_id}
    lake.drain(10, 20, dead_letters=[15])
    lake.drain(0, 5, partition=1)
    check_anchor(lake.load())
    dead = lake.load(dead_letters_of("t")).scan(selected_fields=("_kafka_offset",)).to_arrow()
    assert sorted(dead[0].to_pylist()) == [4, 15]
    assert len(lake.offsets()) == 9 + 9 + 5


def test_a_batch_planned_before_is_refused_though_the_table_stands_at_its_starts(scene: Scene) -> None:
    """Its files may have been swept when the table had passed them: it must never land."""
    lake = scene.lake
    first = lake.drain(0, 10)
    sleeping = lake.request(10, 20)
    lake.drain(10, 20)
    _roll_back(scene, first.snapshot_id)
    with pytest.raises(CommitConflict) as refused:
        lake.commit(sleeping)
    assert refused.value.code == "offsets-moved"
    assert lake.next_offset() == 10


@pytest.mark.parametrize("point", ["rollback.before-swap", "rollback.after-swap", "dead-letters.before-swap"])
def test_killed_around_the_swap_it_has_happened_or_not(scene: Scene, point: str) -> None:
    """Recovery finishes what was owed; the command typed again ends in the same state."""
    lake = scene.lake
    first = lake.drain(0, 10, dead_letters=[4])
    lake.drain(10, 20, dead_letters=[15])
    scene.recover()  # it finishes the dead letters the drain still owed
    with pytest.raises(Killed):
        _roll_back(scene, first.snapshot_id, point)
    scene.recover()
    assert lake.next_offset() == (20 if point == "rollback.before-swap" else 10)
    if point == "rollback.before-swap":
        _roll_back(scene, first.snapshot_id)
    assert lake.offsets() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    dead = lake.load(dead_letters_of("t")).scan(selected_fields=("_kafka_offset",)).to_arrow()
    assert dead[0].to_pylist() == [4]
    assert scene.unfinished() == ()


def test_a_drain_that_commits_meanwhile_is_rolled_back_with_the_rest(scene: Scene) -> None:
    """The comparison is on main: the rollback is staged again on what it finds."""
    lake = scene.lake
    first = lake.drain(0, 10)
    lake.drain(10, 20)

    class DrainsFirst:
        is_due = True

        def reach(self, name: str) -> None:
            if name == "rollback.before-swap" and self.is_due:
                self.is_due = False
                lake.drain(20, 30)

    connections = replace(scene.connections, fail_points=DrainsFirst())
    done = rollback(scene.pipeline, connections, to_snapshot=first.snapshot_id, reason="wrong")
    assert [str(r) for r in done.undone] == ["0:10-30"]
    assert (lake.offsets(), lake.next_offset()) == (list(range(10)), 10)


def test_a_rollback_made_with_another_tool_is_taken_over(scene: Scene) -> None:
    """Named by the next drain with the command; then the offsets follow."""
    lake = scene.lake
    first = lake.drain(0, 10)
    lake.drain(10, 20)
    _set_main_back(scene, first.snapshot_id)
    with pytest.raises(SourceChanged) as noticed:
        check_anchor(lake.load())
    assert f"rollback PIPELINE --to {first.snapshot_id}" in noticed.value.hint
    _roll_back(scene, first.snapshot_id)
    check_anchor(lake.load())
    lake.drain(10, 20)
    assert lake.offsets() == list(range(20))


def test_what_another_engine_removed_on_purpose_may_stay_removed(scene: Scene) -> None:
    """The next drain names both ways on; taken over, the offsets stay and the rows stay away."""
    lake = scene.lake
    lake.drain(0, 10)
    lake.load().delete("id = 3")
    meant = lake.load().metadata.current_snapshot_id
    with pytest.raises(SourceChanged) as noticed:
        check_anchor(lake.load())
    assert noticed.value.code == "table-rewritten"
    assert f"rollback PIPELINE --to {meant}" in noticed.value.hint
    assert meant is not None
    assert not _roll_back(scene, meant).undone
    check_anchor(lake.load())
    lake.drain(10, 20)
    assert lake.offsets() == [offset for offset in range(20) if offset != 3]


def test_rows_that_another_engine_added_are_not_taken_over(scene: Scene) -> None:
    """They have no offsets of ours: only the way back is named, and nothing else works."""
    lake = scene.lake
    first = lake.drain(0, 10)
    lake.load().append(lake.load().scan().to_arrow())
    added = lake.load().metadata.current_snapshot_id
    assert added is not None
    with pytest.raises(SourceChanged) as noticed:
        check_anchor(lake.load())
    assert str(added) not in noticed.value.hint
    with pytest.raises(ConfigError) as refused:
        _roll_back(scene, added)
    assert refused.value.code == "not-our-snapshot"
    _roll_back(scene, first.snapshot_id)
    assert lake.offsets() == list(range(10))


def test_what_kafka_has_no_more_is_not_rolled_back_unless_told(scene: Scene) -> None:
    """Then the loss is remembered as skipped, and the offsets go on after it."""
    lake = scene.lake
    first = lake.drain(0, 10)
    lake.drain(10, 20)
    scene.source.state = SourceState("flights", "t", "c", {0: 15}, {0: 1_000})
    with pytest.raises(OffsetsUnavailable) as refused:
        _roll_back(scene, first.snapshot_id)
    assert refused.value.code == "cannot-refill"
    assert lake.next_offset() == 20
    done = _roll_back(scene, first.snapshot_id, force=True)
    assert [str(r) for r in done.lost] == ["0:10-15"]
    progress = progress_of(lake.load())
    assert (progress.next_offsets, progress.skipped) == ({0: 15}, (Skip(0, 0, 10, 15, "wrong"),))


def test_a_catalog_that_keeps_no_history_refuses(nessie_lake: Lake, tmp_path: Path) -> None:
    """In one line, before anything is logged."""
    scene = make_scene(nessie_lake, str(tmp_path / "log"))
    first = nessie_lake.drain(0, 10)
    nessie_lake.drain(10, 20)
    with pytest.raises(ConfigError) as refused:
        _roll_back(scene, first.snapshot_id)
    assert refused.value.code == "no-history"
    assert scene.unfinished() == ()
