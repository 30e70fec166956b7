"""The commit of a batch, on every catalog: what lands, what is refused, what is kept."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID

from spark_jobs.commit.swap import land, stage_append
from spark_jobs.lake.tables import progress_of
from spark_jobs.protocol.errors import CommitConflict, SourceChanged
from spark_jobs.protocol.work import NoFailPoints
from tests.support.lake import Access, Lake, sends_of

if TYPE_CHECKING:
    from typing import Any

    from pyiceberg.catalog import Catalog

DAY_SECONDS = 24 * 3600


def test_a_batch_lands_with_its_offsets(lake: Lake) -> None:
    """One snapshot holds the rows, the next offsets, the attempt, and a summary for people."""
    lake.make_table()
    request = lake.request(0, 10)
    committed = lake.commit(request)
    table = lake.load()
    assert lake.offsets() == list(range(10))
    assert progress_of(table) == committed.progress
    assert committed.snapshot_id == committed.progress.anchor == table.metadata.current_snapshot_id
    assert committed.progress.next_offsets == {0: 10}
    assert lake.has_landed(request.batch.attempt)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    wanted = {
        "sluice.batch-id": request.batch.batch_id,
        "sluice.attempt": request.batch.attempt,
        "sluice.start-offsets": '{"0": 0}',
        "sluice.end-offsets": '{"0": 10}',
        "sluice.actor": "test",
    }
    assert wanted.items() <= snapshot.summary.additional_properties.items()


def test_a_new_partition_starts_where_its_batch_does(lake: Lake) -> None:
    """A partition the table does not know is no conflict."""
    lake.make_table()
    lake.drain(5, 8, partition=3)
    assert lake.next_offset(partition=3) == 8
    assert lake.next_offset() == 0


def test_a_clock_that_is_set_back_makes_no_earlier_snapshot(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit a day behind the one before is later all the same: Java takes and reads no other table."""
    lake.make_table()
    lake.drain(0, 10)
    now = time.time
    with monkeypatch.context() as behind:
        behind.setattr(time, "time", lambda: now() - DAY_SECONDS)
        lake.drain(10, 20)
    lake.drain(20, 30)
    times = [entry.timestamp_ms for entry in lake.load().metadata.snapshot_log]
    assert times == sorted(set(times))
    assert times[-1] / 1000 > now() - DAY_SECONDS / 2
    assert lake.offsets() == list(range(30))


def test_staging_copies_no_earlier_snapshot(sqlite_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a commit costs before it is sent does not grow with the table's history."""
    sqlite_lake.make_table()
    for start in range(0, 50, 10):
        sqlite_lake.drain(start, start + 10)
    table = sqlite_lake.load()
    copied: set[int] = set()

    def copy(snapshot: Snapshot, memo: dict[int, Any] | None = None) -> Snapshot:
        copied.add(snapshot.snapshot_id)
        return BaseModel.__deepcopy__(snapshot, memo)

    monkeypatch.setattr(Snapshot, "__deepcopy__", copy)
    swap = stage_append(table, (), progress_of(table), {})
    assert copied <= {table.metadata.current_snapshot_id, swap.snapshot_id}


def test_every_commit_compares_main_and_the_table(lake: Lake) -> None:
    """With or without files: main's snapshot id, never null, and the table's uuid."""
    lake.make_table()
    for start, files in ((0, True), (10, False)):
        seen: list[tuple[Any, ...]] = []

        def recorded(seen: list[tuple[Any, ...]] = seen) -> Catalog:
            return sends_of(lake.open(), seen)

        before = lake.load().metadata
        land(Access(recorded, NoFailPoints()), lake.request(start, start + 10, files=files))
        (requirements,) = seen
        refs = [r for r in requirements if isinstance(r, AssertRefSnapshotId)]
        assert [(r.ref, r.snapshot_id) for r in refs] == [("main", before.current_snapshot_id)]
        assert [r.uuid for r in requirements if isinstance(r, AssertTableUUID)] == [before.table_uuid]


def test_a_batch_without_files_makes_a_snapshot(lake: Lake) -> None:
    """Only then can a stale one be told from the one that counts."""
    lake.make_table()
    before = lake.load().metadata.current_snapshot_id
    committed = lake.drain(0, 10, files=False)
    assert committed.snapshot_id != before
    assert lake.load().metadata.current_snapshot_id == committed.snapshot_id


def test_a_stale_batch_without_files_does_not_set_the_offsets_back(lake: Lake) -> None:
    """It carries nothing but offsets, and these must not win over later ones."""
    lake.make_table()

    def two_drains() -> None:
        lake.drain(0, 10)
        lake.drain(10, 20)

    with pytest.raises(CommitConflict):
        lake.commit(lake.request(0, 10, files=False), before_swap=two_drains)
    assert lake.next_offset() == 20
    assert lake.offsets() == list(range(20))


def test_a_conflict_deletes_nothing(lake: Lake) -> None:
    """Another run may have adopted the loser's files."""
    lake.make_table()
    loser = lake.request(0, 10)
    lake.drain(0, 10)
    with pytest.raises(CommitConflict) as caught:
        lake.commit(loser)
    assert caught.value.code == "offsets-moved"
    io = lake.load().io
    assert all(io.new_input(file.path).exists() for file in loser.written.data_files)


def test_main_moved_by_others_keeps_the_same_files(lake: Lake) -> None:
    """A compaction came between and the offsets did not move: the batch lands on the new main, once."""
    lake.make_table()
    request = lake.request(0, 10)
    committed = lake.commit(request, before_swap=lake.compact)
    assert committed.retries == 1
    assert lake.offsets() == list(range(10))
    paths = {task.file.file_path for task in lake.load().scan().plan_files()}
    assert paths == {file.path for file in request.written.data_files}


def test_rows_of_others_that_come_between_are_not_built_upon(lake: Lake) -> None:
    """Their snapshot would lie below the new anchor, where nobody looks."""
    lake.make_table()
    lake.drain(0, 5)
    rows = lake.load().scan().to_arrow()
    with pytest.raises(SourceChanged) as caught:
        lake.commit(lake.request(5, 10), before_swap=lambda: lake.load().append(rows))
    assert caught.value.code == "table-rewritten"
    assert lake.next_offset() == 5


def test_the_same_attempt_twice_is_once(lake: Lake) -> None:
    """Asked again, it gives the commit that landed, even after others."""
    lake.make_table()
    request = lake.request(0, 10)
    first = lake.commit(request)
    assert lake.commit(request).snapshot_id == first.snapshot_id
    lake.drain(10, 20)
    lake.commit(request)
    assert lake.offsets() == list(range(20))


def test_a_table_made_again_does_not_take_the_earlier_ones_files(lake: Lake) -> None:
    """Same name, other table."""
    lake.make_table(dead_letters=False)
    request = lake.request(0, 10)
    lake.open().drop_table(lake.name())
    with pytest.raises(SourceChanged) as gone:
        lake.commit(request)
    assert gone.value.code == "table-gone"
    lake.make_table(dead_letters=False)
    with pytest.raises(SourceChanged) as replaced:
        lake.commit(request)
    assert replaced.value.code == "table-replaced"


def test_metadata_files_are_bounded(lake: Lake) -> None:
    """Twenty earlier versions and no more, whatever the number of commits."""
    lake.make_table(dead_letters=False)
    for start in range(25):
        lake.drain(start, start + 1, files=False)
    table = lake.load()
    assert len(table.metadata.metadata_log) <= 20
    if lake.kind == "sqlite":
        folder = table.location().removeprefix("file://") + "/metadata"
        assert len(list(Path(folder).glob("*.metadata.json"))) <= 21  # with the current one


def test_the_metadata_files_that_a_table_names_are_there(sqlite_lake: Lake) -> None:
    """Of earlier versions a commit deletes those alone that fell out of the table's metadata log."""
    lake = sqlite_lake
    lake.make_table(dead_letters=False)
    for start in range(25):
        lake.drain(start, start + 1, files=False)
    named = [each.metadata_file.removeprefix("file://") for each in lake.load().metadata.metadata_log]
    assert len(named) == 20
    assert [name for name in named if not Path(name).exists()] == []


def test_attempts_are_told_apart(lake: Lake) -> None:
    """Two runs of one range have one batch id; only the attempt says whose commit landed."""
    lake.make_table()
    mine, theirs = (lake.request(0, 10, attempt=uuid.uuid4().hex) for _ in range(2))
    assert mine.batch.batch_id == theirs.batch.batch_id
    lake.commit(theirs)
    assert not lake.has_landed(mine.batch.attempt)
