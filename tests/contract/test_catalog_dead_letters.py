"""Dead letters come after the data, once, whoever brings them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from spark_jobs.commit.pending_commit import commit_pending
from spark_jobs.commit.table_creation import create_dead_letter_table, create_routed_table
from spark_jobs.lake.tables import data_location, dead_letters_of, progress_of, set_partitioning
from spark_jobs.protocol.errors import CommitConflict, CorruptLog
from spark_jobs.protocol.offsets import OffsetRanges
from spark_jobs.protocol.progress import PendingDeadLetters, PendingRoutes
from spark_jobs.storage.create_only import find_files
from spark_jobs.storage.paths import is_inside
from tests.support.lake import write_dead_letters
from tests.support.recovery_scene import FailAt, Killed

if TYPE_CHECKING:
    from tests.support.lake import Lake

DEAD = "t_dead_letters"


def _bring(lake: Lake, progress: object) -> object:
    return commit_pending(lake.access(), lake.name(), progress, {})  # type: ignore[arg-type]


def test_nothing_owed_is_nothing_done(sqlite_lake: Lake) -> None:
    """A batch without dead letters does not touch the dead-letter table."""
    sqlite_lake.make_table()
    before = sqlite_lake.load(DEAD).metadata.current_snapshot_id
    assert _bring(sqlite_lake, sqlite_lake.drain(0, 10).progress) is None
    assert sqlite_lake.load(DEAD).metadata.current_snapshot_id == before


def test_dead_letters_land_once(lake: Lake) -> None:
    """Twice is once; the offsets of the dead-letter table are the batch's ends."""
    lake.make_table()
    progress = lake.drain(0, 10, dead_letters=[3, 4]).progress
    assert _bring(lake, progress) is not None
    _bring(lake, progress)
    assert lake.offsets(DEAD) == [3, 4]
    assert lake.offsets() == [0, 1, 2, 5, 6, 7, 8, 9]
    assert progress_of(lake.load(DEAD)).next_offsets == {0: 10}


def test_the_next_batch_brings_what_an_earlier_run_owes(lake: Lake) -> None:
    """The run died between the data and its dead letters; the next commit would make them forgotten."""
    lake.make_table()
    lake.drain(0, 10, dead_letters=[3])
    lake.drain(10, 20, dead_letters=[15])
    assert lake.offsets(DEAD) == [3]
    lake.drain(20, 30)
    assert lake.offsets(DEAD) == [3, 15]


def test_offsets_jump_over_batches_without_dead_letters(lake: Lake) -> None:
    """Only batches with dead letters commit there."""
    lake.make_table()
    lake.drain(0, 10)
    _bring(lake, lake.drain(10, 20, dead_letters=[11]).progress)
    assert progress_of(lake.load(DEAD)).next_offsets == {0: 20}


def test_a_stale_run_brings_nothing(sqlite_lake: Lake) -> None:
    """It slept until its attempt was no longer among the last commits; the offsets refuse it."""
    lake = sqlite_lake
    lake.make_table()
    stale = lake.drain(0, 2, dead_letters=[1]).progress
    for start in range(2, 46, 2):
        _bring(lake, lake.drain(start, start + 2, dead_letters=[start]).progress)
    with pytest.raises(CommitConflict) as caught:
        _bring(lake, stale)
    assert caught.value.code == "dead-letters-moved"
    assert lake.offsets(DEAD) == [1, *range(2, 46, 2)]


def test_a_dropped_dead_letter_table_is_made_again(sqlite_lake: Lake) -> None:
    """What is owed is not lost because someone removed the table it goes to."""
    lake = sqlite_lake
    lake.make_table()
    progress = lake.drain(0, 10, dead_letters=[3]).progress
    lake.open().drop_table(dead_letters_of(lake.name()))
    _bring(lake, progress)
    assert lake.offsets(DEAD) == [3]


def test_what_is_owed_to_a_table_that_is_partitioned_otherwise_by_now_comes_in(lake: Lake) -> None:
    """Its files were written for the partitioning of before: the rows are copied into the one of now."""
    lake.make_table()
    progress = lake.drain(0, 10, dead_letters=[3, 4]).progress
    before = set_partitioning(lake.open, lake.load(DEAD), ["phase"])
    assert [field.name for field in before.spec().fields] == ["phase"]
    _bring(lake, progress)
    _bring(lake, progress)
    assert lake.offsets(DEAD) == [3, 4]
    assert {task.file.spec_id for task in lake.load(DEAD).scan().plan_files()} == {before.spec().spec_id}


@pytest.mark.parametrize(("layout", "again"), [("mirror", "rebuild PIPELINE"), ("flat", "replay PIPELINE")])
@pytest.mark.parametrize("to", ["dead letters", "a routed table"])
def test_what_brings_lost_rows_again_is_what_the_layout_takes(
    sqlite_lake: Lake, layout: str, again: str, to: str
) -> None:
    """A mirror is made anew as a whole; a loss of routed rows is told as one, not as a stop."""
    lake = sqlite_lake
    own = lake.make_table()
    ranges = OffsetRanges.between({0: 0}, {0: 10})
    (file,) = write_dead_letters(lake.load(DEAD), 0, [3], "lost")
    progress = replace(progress_of(lake.load()), layout=layout)
    if to == "dead letters":
        progress = replace(progress, pending_dead_letters=PendingDeadLetters("lost", ranges, (file,)))
    else:
        routed = create_routed_table(lake.open(), lake.name("refunds"), own, properties={})
        file = replace(file, path=f"{data_location(routed)}/gone.parquet")
        progress = replace(
            progress, owed_routes=PendingRoutes("lost", ranges, {lake.name("refunds"): (file,)})
        )
    if to == "dead letters":
        lake.load().io.delete(file.path)
    with pytest.raises(CorruptLog) as caught:
        _bring(lake, progress)
    assert caught.value.code == "owed-rows-lost"
    assert f"./sluice {again}" in caught.value.hint
    assert ("--range 0:0-10" in caught.value.hint) == (layout == "flat")


def test_files_that_were_purged_with_their_table_are_not_named_again(
    sqlite_lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    """A new dead-letter table stays readable, and the loss somebody asked for is logged."""
    lake = sqlite_lake
    lake.make_table()
    progress = lake.drain(0, 10, dead_letters=[3]).progress
    lake.open().drop_table(dead_letters_of(lake.name()))
    assert progress.pending_dead_letters is not None
    for file in progress.pending_dead_letters.files:
        lake.load().io.delete(file.path)
    _bring(lake, progress)
    assert lake.offsets(DEAD) == []
    assert "were deleted before they were added" in caplog.text


@pytest.mark.parametrize("comes_by", ["recovery", "the next batch"])
def test_what_another_tool_deleted_of_what_is_owed_is_lost_by_name_once(
    sqlite_lake: Lake, comes_by: str
) -> None:
    """Its orphan removal took a file after a crash: the rest comes in, the table can be read, all goes on."""
    lake = sqlite_lake
    lake.make_table()
    request = lake.request(0, 10, dead_letters=[3])
    more = write_dead_letters(lake.load(DEAD), 0, [5], request.batch.attempt)
    files = (*request.written.dead_letter_files, *more)
    request = replace(request, written=replace(request.written, dead_letter_files=files))
    progress = lake.commit(request).progress
    lake.load().io.delete(files[0].path)
    with pytest.raises(CorruptLog) as caught:
        _bring(lake, progress) if comes_by == "recovery" else lake.drain(10, 20)
    assert caught.value.code == "owed-rows-lost"
    assert files[0].path in caught.value.message
    assert "--range 0:0-10" in caught.value.hint
    assert lake.offsets(DEAD) == [5]
    _bring(lake, progress)
    lake.drain(10, 20)
    assert (lake.offsets(DEAD), len(lake.offsets())) == ([5], 19)


@pytest.mark.parametrize("is_first_copy_lost", [False, True])
def test_a_data_table_renamed_alone_shares_no_file_with_the_dead_letters_it_left(
    lake: Lake, is_first_copy_lost: bool
) -> None:
    """What it still names as owed comes into its new dead-letter table as a copy of its own."""
    lake.make_table()
    _bring(lake, lake.drain(0, 10, dead_letters=[3]).progress)
    lake.open().rename_table(lake.name(), lake.name("u"))
    progress = progress_of(lake.load("u"))
    if is_first_copy_lost:
        died = lake.access(FailAt("dead-letters.before-swap"))
        with pytest.raises(Killed):
            commit_pending(died, lake.name("u"), progress, {})
    commit_pending(lake.access(), lake.name("u"), progress, {})
    new = lake.load(dead_letters_of("u"))
    assert lake.offsets(DEAD) == lake.offsets(dead_letters_of("u")) == [3]
    (copied,) = (task.file.file_path for task in new.scan().plan_files())
    assert is_inside(copied, data_location(new))
    assert [file.location for file in find_files(data_location(new), "", new.io.properties)] == [copied]


@pytest.mark.parametrize("has_died", [False, True])
def test_files_that_were_purged_are_not_named_by_whoever_comes_after_the_birth(
    sqlite_lake: Lake, has_died: bool
) -> None:
    """Also where the run that made the table again died before it brought anything."""
    lake = sqlite_lake
    lake.make_table()
    progress = lake.drain(0, 10, dead_letters=[3]).progress
    assert progress.pending_dead_letters is not None
    for file in progress.pending_dead_letters.files:
        lake.load().io.delete(file.path)
    lake.open().drop_table(dead_letters_of(lake.name()))
    if has_died:
        create_dead_letter_table(lake.open(), lake.name(), {}, progress)
    _bring(lake, progress)
    assert lake.offsets(DEAD) == []


def test_a_table_that_was_dropped_after_a_replay_takes_what_is_owed(sqlite_lake: Lake) -> None:
    """What replaces is named until the next commit, also when it was paid; each commit pays first."""
    lake = sqlite_lake
    lake.make_table()
    lake.drain(0, 10, dead_letters=[3])
    owed = PendingDeadLetters("a-rollback", OffsetRanges.between({0: 5}, {0: 10}), (), replaces=True)
    owing = lake.act(
        lambda p: replace(p, replay_epoch=p.replay_epoch + 1, pending_dead_letters=owed)
    ).progress
    _bring(lake, owing)
    lake.open().drop_table(dead_letters_of(lake.name()))
    lake.drain(10, 20)
    lake.drain(20, 30, dead_letters=[25])
    lake.drain(30, 40)
    assert lake.offsets(DEAD) == [25]


def test_a_stale_run_makes_no_dead_letter_table(sqlite_lake: Lake) -> None:
    """In a new one nothing would tell that its dead letters have been replaced since."""
    lake = sqlite_lake
    lake.make_table()
    stale = lake.drain(0, 10, dead_letters=[3]).progress
    lake.drain(10, 20)
    lake.open().drop_table(dead_letters_of(lake.name()))
    with pytest.raises(CommitConflict) as caught:
        _bring(lake, stale)
    assert caught.value.code == "dead-letters-moved"
